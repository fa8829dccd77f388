#include "contexts.h"
#include "environment.h"
#include "slurm_options.h"

int allocator_post_opt(void)
{
	if (options_in_force(slurm_options()))
		environment_announce(slurm_options());
	return ESPANK_SUCCESS;
}
