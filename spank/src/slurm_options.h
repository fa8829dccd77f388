/* The options as Slurm hands them to us, in every command and on every node. */
#ifndef RESILIENCE_SLURM_OPTIONS_H
#define RESILIENCE_SLURM_OPTIONS_H

#include <slurm/spank.h>

#include "options.h"

void slurm_options_register(spank_t spank);

/* What was asked for in this process. Nothing, on a node, where one of them makes no sense. */
const struct options *slurm_options(void);

/* On a node: what is wrong with them; empty: nothing. */
const char *slurm_options_complaint(void);

#endif
