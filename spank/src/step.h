/* What is known of the step whose slurmstepd we are in. */
#ifndef RESILIENCE_STEP_H
#define RESILIENCE_STEP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "life.h"
#include "options.h"
#include "plugstack_args.h"
#include "user.h"

/* Batch scripts, interactive steps and the like have numbers from here on. */
#define STEP_FIRST_SPECIAL 0xfffffff0U

struct step {
	struct plugstack_args args; /* the spool with the node's name in it */
	struct life life;
	struct user user;
	uint32_t job_id;
	uint32_t id;
	uint32_t node_id;
	uint32_t local_tasks;
	char node[256];
	char run[PATH_MAX]; /* the run directory; empty: not known */
	bool run_is_wanted; /* somebody named it for a run that may not have begun: it may be made */
	char attempt[16];   /* of srun-resilient, which manages this step then; empty: it doesn't */
	char lead_s[16];
};

/* False: Slurm doesn't tell us the least that is needed; `why` is one sentence. */
bool step_learn(struct step *step, spank_t spank, int count, char **words, const struct options *options, char *why,
		size_t size);

static inline bool step_is_normal(const struct step *step)
{
	return step->id < STEP_FIRST_SPECIAL;
}

/* Of the node we are on, as Slurm names it. */
void step_node_name(char *into, size_t size);

#endif
