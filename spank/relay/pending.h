#ifndef RELAY_PENDING_H
#define RELAY_PENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "process.h"

/* Signals that came to a process and wait, because it blocks them. Bit n - 1 is signal n. */
typedef uint64_t pending_set;

static inline bool pending_has(pending_set set, int signal)
{
	return (set >> (signal - 1) & 1) != 0;
}

/* Of the text of /proc/PID/status: its first thread's and the whole process's. False: the text doesn't say. Pure. */
bool pending_parse(const char *status, pending_set *set);

/* The same of a process. */
enum process_sight pending_of(pid_t pid, pending_set *set);

#endif
