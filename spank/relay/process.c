#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned long long process_parse_started(const char *stat)
{
	const char *behind_name = strrchr(stat, ')'); /* a name may hold spaces and brackets */

	if (behind_name == NULL || behind_name[1] != ' ')
		return 0;
	behind_name += 2;
	if (*behind_name == 'Z' || *behind_name == 'X' || *behind_name == 'x')
		return 0;
	for (int field = 3; field < 22; field++) {
		behind_name = strchr(behind_name, ' ');
		if (behind_name == NULL)
			return 0;
		behind_name++;
	}
	if (*behind_name < '0' || *behind_name > '9')
		return 0;
	return strtoull(behind_name, NULL, 10);
}

/* /proc may hide what lives: only kill(2) proves that there is nobody. */
static enum process_sight without_proc(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH ? PROCESS_GONE : PROCESS_HIDDEN;
}

enum process_sight process_read(pid_t pid, const char *name, char *into, size_t size)
{
	char path[64];
	size_t length = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return without_proc(pid);
	do {
		got = read(fd, into + length, size - 1 - length);
		if (got > 0)
			length += (size_t)got;
	} while (length < size - 1 && (got > 0 || (got < 0 && errno == EINTR)));
	into[length] = '\0';
	close(fd);
	return got < 0 || length == 0 ? without_proc(pid) : PROCESS_SEEN;
}

enum process_sight process_started(pid_t pid, unsigned long long *ticks)
{
	char stat[2048];
	enum process_sight sight = process_read(pid, "stat", stat, sizeof(stat));

	if (sight != PROCESS_SEEN)
		return sight;
	*ticks = process_parse_started(stat);
	return *ticks == 0 ? PROCESS_GONE : PROCESS_SEEN;
}
