/* What the job's environment is told by who typed the options: the same on sbatch, salloc and srun. */
#ifndef RESILIENCE_ENVIRONMENT_H
#define RESILIENCE_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>

#include "options.h"

#define ENV_CONTINUE "SLURM_RESILIENCE_CONTINUE"
#define ENV_RUN_DIR "SLURM_RESILIENCE_RUN_DIR"
#define ENV_STOP_BEFORE_END "SLURM_RESILIENCE_STOP_BEFORE_END"
#define ENV_RUN "SLURM_RESILIENCE_RUN"
#define ENV_ATTEMPT "SLURM_RESILIENCE_ATTEMPT"
#define ENV_RELAY "SLURM_RESILIENCE_RELAY"
#define ENV_END_FILE "SLURM_RESILIENCE_END_FILE"

/*
 * Sets them in our own environment, which becomes the job's. What is there stays where the option was not typed here
 * but came with the environment, of sbatch for instance: somebody may have changed it since, and a relative run
 * directory is relative to where it was typed.
 */
void environment_announce(const struct options *options);

/* From where we are. False where it gets too long. */
bool environment_absolute(const char *typed, char absolute[PATH_MAX]);

#endif
