#include <stdlib.h>

#include "contexts.h"
#include "environment.h"
#include "slurm_options.h"

int local_post_opt(void)
{
	/* srun-resilient has decided already, and says it to its srun in the same variables. */
	if (options_in_force(slurm_options()) && getenv(ENV_ATTEMPT) == NULL)
		environment_announce(slurm_options());
	return ESPANK_SUCCESS;
}
