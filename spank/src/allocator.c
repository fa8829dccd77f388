#include <stdlib.h>

#include "contexts.h"
#include "environment.h"
#include "slurm_options.h"

int allocator_post_opt(void)
{
	if (!options_in_force(slurm_options()))
		return ESPANK_SUCCESS;
	environment_announce(slurm_options());
	/*
	 * A job that is submitted inside of another one inherits its environment, and Slurm sets the count only from
	 * the first restart on (up to 25.11): until then that of the other job would be taken for its own.
	 */
	unsetenv("SLURM_RESTART_COUNT");
	return ESPANK_SUCCESS;
}
