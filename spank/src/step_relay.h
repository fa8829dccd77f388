/* What a step's relay is started with. */
#ifndef RESILIENCE_STEP_RELAY_H
#define RESILIENCE_STEP_RELAY_H

#include <sys/types.h>

#include <slurm/spank.h>

#include "relay_child.h"
#include "step.h"

/* One that can't be had is said, and the step does without: relay->pid is 0 then. */
void step_relay_start(struct relay_child *relay, const struct step *step, spank_t spank, pid_t slurmstepd);

#endif
