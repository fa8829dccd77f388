/* The exit notes of a step on its way from task_exit to the run directory. */
#ifndef RESILIENCE_NOTES_H
#define RESILIENCE_NOTES_H

#include <stdint.h>
#include <sys/types.h>

#include "step.h"

/* Root's; a spool that can't be written is said once. */
void notes_add(const struct step *step, uint32_t rank, pid_t pid, int status);

/* After the last task of the step on this node. `relay_folder` may be empty. */
void notes_ship(const struct step *step, const char *relay_folder);

#endif
