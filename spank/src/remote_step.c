#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "contexts.h"
#include "environment.h"
#include "fault.h"
#include "fence.h"
#include "log.h"
#include "notes.h"
#include "relay_child.h"
#include "slurm_options.h"
#include "step.h"
#include "step_relay.h"
#include "text.h"
#include "told.h"
#include "user_files.h"

/* What a task leaves with that may not start: as of srun-resilient, "run owned by another live attempt". */
#define EXIT_FENCED 79
#define EXIT_UNFIT_NODE 1

/* A slurmstepd is one step. */
static struct step step;
static struct relay_child relay;
static bool in_force;
static pid_t slurmstepd;
static uint32_t tasks_left;

int remote_init(int count, char **words)
{
	slurmstepd = getpid();
#ifdef FAULTS
	plugstack_args_parse(count, words, &step.args, resilience_log_error);
	if (fault_at(&step.args, "init"))
		return -1;
#else
	(void)count;
	(void)words;
#endif
	return ESPANK_SUCCESS;
}

int remote_post_opt(int count, char **words)
{
#ifdef FAULTS
	if (options_in_force(slurm_options())) {
		plugstack_args_parse(count, words, &step.args, resilience_log_error);
		if (fault_at(&step.args, "init_post_opt"))
			return -1;
	}
#else
	(void)count;
	(void)words;
#endif
	return ESPANK_SUCCESS;
}

static void set(spank_t spank, const char *name, const char *value, int overwrite)
{
	spank_err_t error = spank_setenv(spank, name, value, overwrite);

	if (error != ESPANK_SUCCESS && error != ESPANK_ENV_EXISTS)
		resilience_log_error("%s can't be set for the tasks", name);
}

/* For jobs whose environment did not travel; what is there was decided by somebody who knew more. */
static void tell_tasks(spank_t spank)
{
	const struct options *options = slurm_options();

	set(spank, ENV_CONTINUE, options_continuation(options), 0);
	if (step.run_is_wanted)
		set(spank, ENV_RUN_DIR, step.run, 0);
	if (step.lead_s[0] != '\0')
		set(spank, ENV_STOP_BEFORE_END, step.lead_s, 0);
}

static void tell_of_relay(spank_t spank)
{
	char end[PATH_MAX];

	if (relay.pid == 0) {
		/* A step inside a task of another step has that one's. */
		spank_unsetenv(spank, ENV_RELAY);
		spank_unsetenv(spank, ENV_END_FILE);
		return;
	}
	set(spank, ENV_RELAY, relay.folder, 1);
	if (text_join(end, sizeof(end), relay.folder, "end"))
		set(spank, ENV_END_FILE, end, 1);
	if (step.run[0] != '\0')
		set(spank, ENV_RUN, step.run, 0);
}

int remote_user_init(spank_t spank, int count, char **words)
{
	char why[256];

	if (slurm_options_complaint()[0] != '\0')
		resilience_log_error("%s; the job goes on as without it", slurm_options_complaint());
	if (!options_in_force(slurm_options()))
		return ESPANK_SUCCESS;
	if (!step_learn(&step, spank, count, words, slurm_options(), why, sizeof(why))) {
		resilience_log_error("%s: the job goes on as without --resilient", why);
		return ESPANK_SUCCESS;
	}
	if (fault_at(&step.args, "user_init"))
		return -1;
	tasks_left = step.local_tasks;
	in_force = true;
	tell_tasks(spank);
	if (step_is_normal(&step) && step.attempt[0] == '\0' && step.args.relay[0] != '\0')
		step_relay_start(&relay, &step, spank, slurmstepd);
	tell_of_relay(spank);
	return ESPANK_SUCCESS;
}

/*
 * Slurm starts the task all the same where an optional plugin returns an error, so the task leaves by itself, as Slurm
 * has it leave for a required one. Nobody is in this process but the task that does not start.
 */
static void leave(int code) __attribute__((noreturn));

static void leave(int code)
{
	_exit(code);
}

static void pass_fence(bool first)
{
	char sentence[2 * PATH_MAX];
	enum fence_word word = fence_look(step.run, &step.life, step.attempt, sentence, sizeof(sentence));
	int error;

	if (word != FENCE_OPEN && first)
		resilience_log_error("%s", sentence);
	if (word == FENCE_CLOSED)
		leave(EXIT_FENCED);
	if (word != FENCE_OPEN || !first || step.node_id != 0)
		return;
	error = user_files_make_life(step.run, step.life.text, step.run_is_wanted);
	/* A run directory that nobody has made yet is the training's business. */
	if (error != 0 && error != ENOENT)
		resilience_log_error("%s/exit-notes can't be made: %s", step.run, strerror(error));
}

/* From here to the end of the task, and of all it starts: only the relay hears. */
static void block_signals(void)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

static void rely_on_relay(spank_t spank, bool first)
{
	char page[PATH_MAX];

	/* A task in a container may have a /dev/shm of its own. Nobody must be deaf without a page to read. */
	if (text_join(page, sizeof(page), relay.folder, "stop") && access(page, F_OK) == 0) {
		block_signals();
		return;
	}
	if (first)
		resilience_log_error("%s can't be seen by the tasks, who get Slurm's signals themselves", relay.folder);
	spank_unsetenv(spank, ENV_RELAY);
	spank_unsetenv(spank, ENV_END_FILE);
}

int remote_task_init(spank_t spank)
{
	int local_id = -1;
	bool first;

	if (!in_force)
		return ESPANK_SUCCESS;
	if (fault_at(&step.args, "task_init"))
		return -1;
	first = spank_get_item(spank, S_TASK_ID, &local_id) == ESPANK_SUCCESS && local_id == 0;
	if (step_is_normal(&step) && step.run[0] != '\0')
		pass_fence(first);
	if (!told(&step, first))
		leave(EXIT_UNFIT_NODE);
	if (relay.pid != 0)
		rely_on_relay(spank, first);
	return ESPANK_SUCCESS;
}

int remote_task_post_fork(spank_t spank)
{
	int local_id;
	pid_t pid;

	if (!in_force)
		return ESPANK_SUCCESS;
	if (fault_at(&step.args, "task_post_fork"))
		return -1;
	if (relay.pid != 0 && spank_get_item(spank, S_TASK_ID, &local_id) == ESPANK_SUCCESS &&
	    spank_get_item(spank, S_TASK_PID, &pid) == ESPANK_SUCCESS)
		relay_child_tell(&relay, (uint32_t)local_id, pid);
	return ESPANK_SUCCESS;
}

int remote_task_exit(spank_t spank)
{
	uint32_t rank;
	int status;
	pid_t pid;

	if (!in_force)
		return ESPANK_SUCCESS;
	if (fault_at(&step.args, "task_exit"))
		return -1;
	if (tasks_left > 0)
		tasks_left--;
	if (!step_is_normal(&step))
		return ESPANK_SUCCESS;
	if (spank_get_item(spank, S_TASK_GLOBAL_ID, &rank) == ESPANK_SUCCESS &&
	    spank_get_item(spank, S_TASK_PID, &pid) == ESPANK_SUCCESS &&
	    spank_get_item(spank, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS)
		notes_add(&step, rank, pid, status);
	if (tasks_left > 0)
		return ESPANK_SUCCESS;
	notes_ship(&step, relay.folder); /* while the relay still has its folder */
	relay_child_end(&relay);
	return ESPANK_SUCCESS;
}

int remote_exit(void)
{
	/* Tasks that never started never ended. */
	relay_child_end(&relay);
	if (in_force && fault_at(&step.args, "exit"))
		return -1;
	return ESPANK_SUCCESS;
}
