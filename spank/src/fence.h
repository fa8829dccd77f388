/* A fence against the past: a life of the job, or an attempt of the run, that has a newer one must not start. */
#ifndef RESILIENCE_FENCE_H
#define RESILIENCE_FENCE_H

#include <stddef.h>

#include "life.h"

enum fence_word {
	FENCE_OPEN,
	FENCE_CLOSED,  /* `sentence` names both */
	FENCE_UNKNOWN, /* `sentence` says what can't be read; commits are fenced by others too */
};

/* As the user. `attempt` is SLURM_RESILIENCE_ATTEMPT, or empty. */
enum fence_word fence_look(const char *run, const struct life *life, const char *attempt, char *sentence, size_t size);

#endif
