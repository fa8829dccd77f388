#include "step_relay.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "log.h"
#include "text.h"

/* NAME=value into `into`, of the job's environment or else of ours. */
static char *pass_on(spank_t spank, const char *name, char *into, size_t size)
{
	size_t length = (size_t)snprintf(into, size, "%s=", name);
	const char *ours = getenv(name);

	if (spank_getenv(spank, name, into + length, (int)(size - length)) == ESPANK_SUCCESS)
		return into;
	into[length] = '\0';
	return ours != NULL && text_append(into, size, ours) ? into : NULL;
}

/* Little of the user's: LD_PRELOAD and the like are meant for the training. */
static char *const *environment_of(const struct step *step, spank_t spank)
{
	static const char *const NAMES[] = {
	    "PATH", "HOME", "TZ", "SLURM_CONF", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME"};
	static char texts[sizeof(NAMES) / sizeof(NAMES[0])][PATH_MAX], node[300];
	static char *environment[sizeof(NAMES) / sizeof(NAMES[0]) + 2];
	size_t count = 0;

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		char *variable = pass_on(spank, NAMES[i], texts[i], sizeof(texts[i]));

		if (variable != NULL)
			environment[count++] = variable;
	}
	snprintf(node, sizeof(node), "SLURMD_NODENAME=%s", step->node);
	environment[count++] = node;
	environment[count] = NULL;
	return environment;
}

void step_relay_start(struct relay_child *relay, const struct step *step, spank_t spank, pid_t slurmstepd)
{
	char why[1024];
	struct relay_request request = {.program = step->args.relay,
					.runtime = step->args.runtime,
					.life = step->life.text,
					.node = step->node,
					.run = step->run,
					.step = step->id,
					.node_id = step->node_id,
					.local_tasks = step->local_tasks,
					.kill_wait_s = step->args.kill_wait_s,
					.lead_s = step->lead_s};

	/* With Contain_SPANK this is a passing process: neither child nor descriptor would stay ours. */
	if (getpid() != slurmstepd) {
		resilience_log_error("node %s has no signal relay: Slurm runs plugins inside the job's container",
				     step->node);
		return;
	}
	request.environment = environment_of(step, spank);
	if (!relay_child_start(relay, &request, &step->user, why, sizeof(why)))
		resilience_log_error("node %s has no signal relay: %s", step->node, why);
}
