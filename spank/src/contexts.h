/* What the plugin does in each of Slurm's contexts; dispatch.c says when. Each returns what its callback returns. */
#ifndef RESILIENCE_CONTEXTS_H
#define RESILIENCE_CONTEXTS_H

#include <slurm/spank.h>

/* sbatch and salloc */
int allocator_post_opt(void);

/* srun */
int local_post_opt(void);

/* slurmstepd; task_init in what becomes the task */
int remote_init(int count, char **words);
int remote_post_opt(int count, char **words);
int remote_user_init(spank_t spank, int count, char **words);
int remote_task_init(spank_t spank);
int remote_task_post_fork(spank_t spank);
int remote_task_exit(spank_t spank);
int remote_exit(void);

/* what slurmd starts before and after a job */
int script_prolog(spank_t spank, int count, char **words);
int script_epilog(spank_t spank, int count, char **words);

#endif
