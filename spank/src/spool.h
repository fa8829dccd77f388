/*
 * The node's spool, root's: SPOOL/JOBID.LIFE.UID.jsonl holds the exit notes of a life, JOBID.LIFE.UID.run where they
 * are to be brought: the run directory in one line, and in a second one the groups of the user.
 */
#ifndef RESILIENCE_SPOOL_H
#define RESILIENCE_SPOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "life.h"
#include "user.h"

#define SPOOL_NAME_MAX 96

struct spool_name {
	uint32_t job_id;
	char life[LIFE_TEXT_MAX];
	uint32_t uid;
};

struct spool_run {
	char run[PATH_MAX];
	gid_t gid;
	gid_t *groups; /* malloc'ed */
	int group_count;
};

/* Pure. "%n" becomes the node's name. False where it doesn't fit. */
bool spool_expand(const char *pattern, const char *node, char *into, size_t size);

/* Pure. */
void spool_name(char into[SPOOL_NAME_MAX], uint32_t job_id, const char *life, uid_t uid, const char *suffix);

/* Pure. Whether `file` is JOBID.LIFE.UID and then `suffix`. */
bool spool_name_parse(const char *file, const char *suffix, struct spool_name *name);

/* The folder, made where it isn't there and `make` says so (its parents must be); -1: errno says why. */
int spool_open(const char *path, bool make);

/* Open for appending, made if need be; -1: errno says why. */
int spool_open_notes(int folder, const char *name);

bool spool_remember_run(int folder, const char *name, const char *run, const struct user *user);
bool spool_recall_run(int folder, const char *name, struct spool_run *into);

/* Removes what is ours and older than that. */
void spool_sweep(int folder, int keep_days);

#endif
