/* Slurm's hooks, and nothing else: which context does what. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

#include "contexts.h"
#include "slurm_options.h"

/* Looked for by the packages: Slurm loads a plugin only into its own major version. */
__attribute__((used)) static const char STAMP[] = "slurm-resilience-spank " VERSION " for Slurm " SLURM_RELEASE;

#pragma GCC visibility push(default)

SPANK_PLUGIN(resilience, 1)

int slurm_spank_init(spank_t spank, int count, char **words)
{
	switch (spank_context()) {
	case S_CTX_REMOTE:
		slurm_options_register(spank);
		return remote_init(count, words);
	case S_CTX_ALLOCATOR:
	case S_CTX_LOCAL:
		slurm_options_register(spank);
		return ESPANK_SUCCESS;
	default:
		return ESPANK_SUCCESS;
	}
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **words)
{
	(void)spank;
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
		return allocator_post_opt();
	case S_CTX_LOCAL:
		return local_post_opt();
	case S_CTX_REMOTE:
		return remote_post_opt(count, words);
	default:
		return ESPANK_SUCCESS;
	}
}

int slurm_spank_user_init(spank_t spank, int count, char **words)
{
	return remote_user_init(spank, count, words);
}

int slurm_spank_task_init(spank_t spank, int count, char **words)
{
	(void)count;
	(void)words;
	return remote_task_init(spank);
}

int slurm_spank_task_post_fork(spank_t spank, int count, char **words)
{
	(void)count;
	(void)words;
	return remote_task_post_fork(spank);
}

int slurm_spank_task_exit(spank_t spank, int count, char **words)
{
	(void)count;
	(void)words;
	return remote_task_exit(spank);
}

int slurm_spank_exit(spank_t spank, int count, char **words)
{
	(void)spank;
	(void)count;
	(void)words;
	return spank_context() == S_CTX_REMOTE ? remote_exit() : ESPANK_SUCCESS;
}

int slurm_spank_job_prolog(spank_t spank, int count, char **words)
{
	return script_prolog(spank, count, words);
}

int slurm_spank_job_epilog(spank_t spank, int count, char **words)
{
	return script_epilog(spank, count, words);
}

#pragma GCC visibility pop
