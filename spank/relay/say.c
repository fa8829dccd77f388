#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static char prefix[64] = "slurm-resilience-relay";

void say_as_node(unsigned node_id)
{
	snprintf(prefix, sizeof(prefix), "slurm-resilience-relay[n%u]", node_id);
}

void say(const char *format, ...)
{
	char line[2048]; /* below PIPE_BUF: a pipe that says it is writable takes it at once */
	struct pollfd writable = { .fd = STDERR_FILENO, .events = POLLOUT };
	va_list rest;
	int length = snprintf(line, sizeof(line), "%s: ", prefix);

	va_start(rest, format);
	length += vsnprintf(line + length, sizeof(line) - (size_t)length, format, rest);
	va_end(rest);
	if (length > (int)sizeof(line) - 2)
		length = (int)sizeof(line) - 2;
	line[length++] = '\n';
	/* Nobody may read it any more (EPIPE), or has stopped reading (full): then it is not said. */
	if (poll(&writable, 1, 0) == 1 && (writable.revents & POLLOUT) != 0 &&
	    write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}
