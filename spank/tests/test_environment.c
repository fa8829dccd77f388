#include "contexts.h"
#include "environment.h"
#include "scene.h"
#include "slurm_options.h"

#define OPTION "SLURM_SPANK__SLURM_SPANK_OPTION_resilience_"

static struct options options;

static void begin(void)
{
	static const char *const NAMES[] = {ENV_CONTINUE,	    ENV_RUN_DIR,
					    ENV_STOP_BEFORE_END,    OPTION "resilient",
					    OPTION "resilient_run", OPTION "resilient_signal_lead"};

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
		unsetenv(NAMES[i]);
	options = (struct options){0};
	CHECK(chdir(scene_folder) == 0);
}

static bool is(const char *name, const char *value)
{
	return getenv(name) != NULL && strcmp(getenv(name), value) == 0;
}

static void what_is_typed_is_told_to_the_job(void)
{
	begin();
	options = (struct options){.continuation = CONTINUE_CHAIN, .run = "runs/a", .has_lead = true, .lead_s = 90};
	setenv(ENV_CONTINUE, "requeue", 1);
	setenv(ENV_RUN_DIR, "/elsewhere", 1);
	environment_announce(&options);
	CHECK(is(ENV_CONTINUE, "chain") && is(ENV_RUN_DIR, in_scene("runs/a")) && is(ENV_STOP_BEFORE_END, "90"));
}

static void what_is_not_typed_is_not_told(void)
{
	begin();
	options.run[0] = '/';
	environment_announce(&options);
	CHECK(is(ENV_CONTINUE, "requeue") && is(ENV_RUN_DIR, "/") && getenv(ENV_STOP_BEFORE_END) == NULL);
	setenv(ENV_CONTINUE, "chain", 1);
	environment_announce(&options); /* only implied: who said chain is not overruled */
	CHECK(is(ENV_CONTINUE, "chain"));
}

static void a_relative_folder_is_relative_to_where_it_was_typed(void)
{
	begin();
	/* sbatch --resilient --resilient-run=runs/a in one folder, srun in another one in the job */
	setenv(OPTION "resilient", "(null)", 1);
	setenv(OPTION "resilient_run", "runs/a", 1);
	setenv(ENV_RUN_DIR, "/submitted/in/runs/a", 1);
	setenv(ENV_CONTINUE, "chain", 1); /* the batch script's own wish */
	options = (struct options){.continuation = CONTINUE_REQUEUE, .run = "runs/a"};
	environment_announce(&options);
	CHECK(is(ENV_RUN_DIR, "/submitted/in/runs/a") && is(ENV_CONTINUE, "chain"));
	snprintf(options.run, sizeof(options.run), "runs/b"); /* typed on srun */
	options.continuation = CONTINUE_CHAIN;
	setenv(ENV_CONTINUE, "requeue", 1);
	environment_announce(&options);
	CHECK(is(ENV_RUN_DIR, in_scene("runs/b")) && is(ENV_CONTINUE, "chain"));
}

static void a_bad_value_is_refused_where_it_was_typed_and_only_said_on_a_node(void)
{
	begin();
	slurm_options_register(NULL);
	CHECK(fake_option("resilient", "maybe", 0) == -1 && strstr(fake_logged, "\"maybe\"") != NULL);
	CHECK(slurm_options_complaint()[0] == '\0');
	CHECK(fake_option("resilient", NULL, 0) == 0 && options_in_force(slurm_options()));
	CHECK(allocator_post_opt() == ESPANK_SUCCESS && is(ENV_CONTINUE, "requeue"));
	unsetenv(ENV_CONTINUE);
	setenv(ENV_ATTEMPT, "3", 1);
	CHECK(local_post_opt() == ESPANK_SUCCESS && getenv(ENV_CONTINUE) == NULL); /* srun-resilient's srun */
	unsetenv(ENV_ATTEMPT);
	CHECK(local_post_opt() == ESPANK_SUCCESS && is(ENV_CONTINUE, "requeue"));
	fake_logged[0] = '\0';
	CHECK(fake_option("resilient-signal-lead", "x", 1) == ESPANK_SUCCESS && fake_logged[0] == '\0');
	CHECK(strstr(slurm_options_complaint(), "\"x\"") != NULL && !options_in_force(slurm_options()));
}

/* srun in the job is another matter: there the count is the job's own. */
static void the_restart_count_of_the_job_that_submits_is_not_that_of_the_new_one(void)
{
	begin();
	slurm_options_register(NULL);
	setenv("SLURM_RESTART_COUNT", "2", 1);
	CHECK(fake_option("resilient", "off", 0) == 0 && allocator_post_opt() == ESPANK_SUCCESS);
	CHECK(is("SLURM_RESTART_COUNT", "2")); /* without the option nothing is touched */
	CHECK(fake_option("resilient", "requeue", 0) == 0 && local_post_opt() == ESPANK_SUCCESS);
	CHECK(is("SLURM_RESTART_COUNT", "2"));
	CHECK(allocator_post_opt() == ESPANK_SUCCESS && getenv("SLURM_RESTART_COUNT") == NULL);
}

static void a_relative_folder_that_gets_too_long_is_refused(void)
{
	char folder[PATH_MAX], absolute[PATH_MAX];

	begin();
	memset(folder, 'a', sizeof(folder));
	folder[PATH_MAX - 2] = '\0';
	CHECK(!environment_absolute(folder, absolute));
	CHECK(fake_option("resilient-run", folder, 0) == -1 && strstr(fake_logged, "too long") != NULL);
	CHECK(chdir("/") == 0);
}

int main(void)
{
	RUN(what_is_typed_is_told_to_the_job);
	RUN(what_is_not_typed_is_not_told);
	RUN(a_relative_folder_is_relative_to_where_it_was_typed);
	RUN(the_restart_count_of_the_job_that_submits_is_not_that_of_the_new_one);
	RUN(a_bad_value_is_refused_where_it_was_typed_and_only_said_on_a_node);
	RUN(a_relative_folder_that_gets_too_long_is_refused);
	return 0;
}
