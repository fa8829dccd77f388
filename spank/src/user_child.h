/*
 * Work on a user's files, done by a child that has become the user for good and that nobody waits for long: a file
 * system that hangs must not hang slurmstepd, and a link that a user made must not lead root anywhere.
 */
#ifndef RESILIENCE_USER_CHILD_H
#define RESILIENCE_USER_CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "user.h"

struct user_report {
	char doing[64];	       /* what was tried last: "making", "writing" */
	char path[PATH_MAX];   /* with what */
	char answer[PATH_MAX]; /* of the work, if it has one; made by a user: not to be believed */
};

/* 0, or an errno, with doing and path set. It is the child of a process with threads: it must not log. */
typedef int (*user_work)(const void *argument, struct user_report *report);

enum user_child_end {
	USER_CHILD_DONE,
	USER_CHILD_FAILED, /* `error` says why */
	USER_CHILD_LATE,   /* it was killed */
};

/* `keep` is the one descriptor that the work needs, or -1. Waits `limit_s` at most, and a second for it to die. */
enum user_child_end user_child_run(const struct user *user, int keep, user_work work, const void *argument, int limit_s,
				   struct user_report *report, int *error);

/* Whether the child is gone, reaped by us or by somebody else, within the time. `status` is -1 where we didn't see. */
bool child_reap(pid_t pid, int limit_ms, int *status);

/* In a child: standard files are /dev/null, everything else but `keep` is closed. */
void child_close_files(int keep);

/* All descriptors from this one on. */
void child_close_from(int first);

#endif
