/* What the health gate found on this node, told to the user and to who decides about the job. */
#ifndef RESILIENCE_TOLD_H
#define RESILIENCE_TOLD_H

#include <stdbool.h>

#include "health.h"
#include "step.h"

/* Pure. What stands in NODE.health.json; false where it doesn't fit. */
bool told_format(const char *node, enum health_mode mode, const struct health_finding *findings, size_t count,
		 char *into, size_t size);

/*
 * In the task, as the user. `first`: this one says it, and writes it into the run directory. Returns whether the task
 * may start here.
 */
bool told(const struct step *step, bool first);

#endif
