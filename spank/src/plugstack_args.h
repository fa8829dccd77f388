/* What the site wrote behind `resilience.so` in plugstack.conf. */
#ifndef RESILIENCE_PLUGSTACK_ARGS_H
#define RESILIENCE_PLUGSTACK_ARGS_H

#include <limits.h>
#include <stdbool.h>

#include "health.h"

struct plugstack_args {
	char spool[PATH_MAX]; /* "%n" stands for the node's name, as in slurm.conf: several slurmds on one host */
	char relay[PATH_MAX]; /* empty: no relay */
	char runtime[PATH_MAX];
	char health_directory[PATH_MAX];
	enum health_mode health;
	int health_timeout_s;
	int kill_wait_s;
	int notes_keep_days;
#ifdef FAULTS
	char fault[64]; /* CALLBACK:error or CALLBACK:crash; empty: none */
#endif
};

typedef void (*plugstack_complain)(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Never fails: an argument that is unknown or bad is named by one sentence, and the default stands. */
void plugstack_args_parse(int count, char **words, struct plugstack_args *into, plugstack_complain complain);

#endif
