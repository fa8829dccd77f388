/* One check of the health gate: a program that is started, listened to, and ended whether it wants or not. */
#ifndef RESILIENCE_HEALTH_CHECK_H
#define RESILIENCE_HEALTH_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HEALTH_SAID_MAX 200

struct health_check {
	char name[49];
	char path[PATH_MAX];
	pid_t pid;  /* also its process group; 0: not running, or no longer ours */
	int output; /* we read here; -1: closed */
	bool ended;
	bool late;  /* it had to be killed when the time was up */
	int status; /* as from waitpid, once it ended */
	bool heard; /* its first line is whole; the rest is read and thrown away */
	size_t said_length;
	char said[HEALTH_SAID_MAX + 1];
};

/* False, with errno: it could not be started. */
bool health_check_start(struct health_check *check, char *const environment[]);

/* Takes what it has written by now, a pipe full at most. */
void health_check_listen(struct health_check *check);

/* Whether it has ended. Then what it left in its process group is killed, and it is reaped. Never waits. */
bool health_check_ended(struct health_check *check);

void health_check_kill(struct health_check *check);

/* No further word from it is wanted. */
void health_check_hang_up(struct health_check *check);

#endif
