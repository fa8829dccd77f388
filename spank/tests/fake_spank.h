/* A Slurm for unit tests: what the plugin asks it is set here, and what it says is kept here. */
#ifndef FAKE_SPANK_H
#define FAKE_SPANK_H

#include <stdint.h>
#include <sys/types.h>

#include <slurm/spank.h>

struct fake_job {
	uint32_t job_id, step_id, node_id, local_tasks;
	int task_id;
	uint32_t global_id;
	pid_t pid;
	int status;
	uid_t uid;
	gid_t gid;
	int unknown; /* Slurm says nothing of any item */
};

extern struct fake_job fake_job;
extern spank_context_t fake_context;
extern char fake_logged[65536];

/* Everything as before the first call, a step of one task on one node that is ours. */
void fake_reset(void);

/* The job's environment. NULL: not in it. */
void fake_set(const char *name, const char *value);
const char *fake_get(const char *name);

/* As the user types --NAME=VALUE; the callback's answer. */
int fake_option(const char *name, const char *value, int remote);

#endif
