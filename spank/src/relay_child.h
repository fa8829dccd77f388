/* The relay: one process beside the tasks of a step on a node, the user's, that turns Slurm's signals into a page. */
#ifndef RESILIENCE_RELAY_CHILD_H
#define RESILIENCE_RELAY_CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "user.h"

#define RELAY_ANSWER_LIMIT_S 5
#define RELAY_END_LIMIT_S 2

struct relay_child {
	pid_t pid;   /* 0: there is none */
	pid_t owner; /* the process whose child it is, and whose descriptor `pipe` is */
	int pipe;
	struct user user;
	char folder[PATH_MAX]; /* the runtime folder; empty: none */
};

struct relay_request {
	const char *program;
	const char *runtime;
	const char *life;
	const char *node;
	const char *run; /* empty: not known */
	uint32_t step;
	uint32_t node_id;
	uint32_t local_tasks;
	int kill_wait_s;
	const char *lead_s; /* empty: not said */
	char *const *environment;
};

/* False: `why` is one sentence, and nothing is left of it. */
bool relay_child_start(struct relay_child *relay, const struct relay_request *request, const struct user *user,
		       char *why, size_t size);

/* The pid of a task that has started. */
void relay_child_tell(struct relay_child *relay, uint32_t local_id, pid_t pid);

/* It ends, whether it wants to or not, and so does its folder. May be called twice. */
void relay_child_end(struct relay_child *relay);

#endif
