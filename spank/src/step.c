#include "step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "log.h"
#include "spool.h"
#include "text.h"

/* slurmd tells it to its slurmstepds in their own environment, which is not the job's. */
void step_node_name(char *into, size_t size)
{
	const char *name = getenv("SLURMD_NODENAME");

	into[0] = '\0';
	if (name != NULL && name[0] != '\0' && strchr(name, '/') == NULL && text_copy(into, size, name))
		return;
	if (gethostname(into, size) < 0)
		text_copy(into, size, "unknown");
	into[size - 1] = '\0';
	into[strcspn(into, ".")] = '\0';
}

static const char *from_job(spank_t spank, const char *name, char *into, int size)
{
	if (spank_getenv(spank, name, into, size) != ESPANK_SUCCESS)
		into[0] = '\0';
	return into;
}

static void learn_life(struct step *step, spank_t spank)
{
	char restart[16], array[16], task[16];

	life_from(&step->life, step->job_id, from_job(spank, "SLURM_RESTART_COUNT", restart, sizeof(restart)),
		  from_job(spank, "SLURM_ARRAY_JOB_ID", array, sizeof(array)),
		  from_job(spank, "SLURM_ARRAY_TASK_ID", task, sizeof(task)));
}

/* In the job's environment, then as it was typed. False: named, but not to be used. */
static bool learn_run(struct step *step, spank_t spank, const struct options *options)
{
	char submitted[PATH_MAX];

	if (*from_job(spank, ENV_RUN, step->run, sizeof(step->run)) != '\0')
		return text_is_absolute_path(step->run);
	if (*from_job(spank, ENV_RUN_DIR, step->run, sizeof(step->run)) == '\0' && options->run[0] != '\0') {
		/* The environment didn't travel. */
		if (options->run[0] == '/')
			text_copy(step->run, sizeof(step->run), options->run);
		else if (*from_job(spank, "SLURM_SUBMIT_DIR", submitted, sizeof(submitted)) == '/')
			text_join(step->run, sizeof(step->run), submitted, options->run);
	}
	step->run_is_wanted = step->run[0] != '\0';
	return !step->run_is_wanted || text_is_absolute_path(step->run);
}

static void learn_lead(struct step *step, spank_t spank, const struct options *options)
{
	uint32_t seconds;

	if (text_to_number(from_job(spank, ENV_STOP_BEFORE_END, step->lead_s, sizeof(step->lead_s)), 0, 604800,
			   &seconds))
		return;
	step->lead_s[0] = '\0'; /* srun-resilient takes more than we can pass on */
	if (options->has_lead)
		snprintf(step->lead_s, sizeof(step->lead_s), "%" PRIu32, options->lead_s);
}

bool step_learn(struct step *step, spank_t spank, int count, char **words, const struct options *options, char *why,
		size_t size)
{
	char spool[PATH_MAX];
	gid_t *groups = NULL;

	memset(step, 0, sizeof(*step));
	plugstack_args_parse(count, words, &step->args, resilience_log_error);
	if (spank_get_item(spank, S_JOB_ID, &step->job_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_STEPID, &step->id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_NODEID, &step->node_id) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &step->local_tasks) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_UID, &step->user.uid) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_GID, &step->user.gid) != ESPANK_SUCCESS) {
		snprintf(why, size, "Slurm doesn't say which step this is");
		return false;
	}
	if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &step->user.group_count) != ESPANK_SUCCESS ||
	    groups == NULL)
		step->user.group_count = 0;
	step->user.groups = groups;
	step_node_name(step->node, sizeof(step->node));
	text_copy(spool, sizeof(spool), step->args.spool);
	if (!spool_expand(spool, step->node, step->args.spool, sizeof(step->args.spool))) {
		snprintf(why, size, "the spool's path gets too long with the name of node %s", step->node);
		return false;
	}
	learn_life(step, spank);
	from_job(spank, ENV_ATTEMPT, step->attempt, sizeof(step->attempt));
	learn_lead(step, spank, options);
	if (!learn_run(step, spank, options)) {
		resilience_log_error("the run directory \"%.200s\" is no absolute path, and does not count", step->run);
		step->run[0] = '\0';
		step->run_is_wanted = false;
	}
	return true;
}
