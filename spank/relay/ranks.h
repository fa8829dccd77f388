#ifndef RELAY_RANKS_H
#define RELAY_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "pending.h"

struct rank {
	pid_t pid; /* 0: not told, or gone */
	unsigned long long started; /* 0: not seen yet */
};

/* The node's tasks, as the plugin tells them. */
struct ranks {
	struct rank *of; /* by local id */
	unsigned count;
	char line[64]; /* what has come of the next line */
	size_t line_length;
	bool line_too_long;
};

struct ranks_found {
	pid_t pid; /* 0: nobody */
	int signal;
};

bool ranks_open(struct ranks *ranks, unsigned count);
void ranks_close(struct ranks *ranks);

/* "<local id> <pid>", without its end. Pure. */
bool ranks_parse_line(const char *line, unsigned count, unsigned *local_id, pid_t *pid);

/* Take what came from the plugin; returns the number of lines that make no sense. */
unsigned ranks_take(struct ranks *ranks, const char *bytes, size_t length);

/*
 * Look at all of them: to whom came one of Slurm's signals? SIGTERM goes before the others, because nobody can tell
 * which of two pending signals came first. A process that is gone is never looked at again, whoever has its number.
 */
struct ranks_found ranks_look(struct ranks *ranks);

#endif
