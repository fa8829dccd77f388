/* A whole step on a node, as slurmstepd goes through it, and the job's epilog. A plugin serves one step: so does a
 * child. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "contexts.h"
#include "environment.h"
#include "scene.h"
#include "slurm_options.h"

static char spool_word[PATH_MAX], relay_word[PATH_MAX];
static char *words[] = {spool_word, relay_word};

static void begin(const char *relay_script)
{
	snprintf(spool_word, sizeof(spool_word), "spool=%s/%%n", in_scene("spool"));
	snprintf(relay_word, sizeof(relay_word), "relay=%s", relay_script == NULL ? "off" : in_scene("relay"));
	CHECK(mkdir(in_scene("spool"), 0755) == 0);
	if (relay_script != NULL)
		write_scene("relay", relay_script, 0755);
	setenv("SLURMD_NODENAME", "n1", 1);
	CHECK(remote_init(2, words) == ESPANK_SUCCESS);
	slurm_options_register(NULL);
}

/* Runs it as what becomes a task; what it left with. */
static int start_task(int local_id, char *mask, size_t size)
{
	int status, ends[2];
	ssize_t length;
	pid_t pid;

	fake_job.task_id = local_id;
	CHECK(pipe(ends) == 0);
	pid = fork();
	if (pid == 0) {
		sigset_t blocked;
		char letters[8] = "";

		remote_task_init(NULL);
		sigprocmask(SIG_BLOCK, NULL, &blocked);
		snprintf(letters, sizeof(letters), "%d%d%d", sigismember(&blocked, SIGTERM),
			 sigismember(&blocked, SIGUSR1), sigismember(&blocked, SIGUSR2));
		_exit(write(ends[1], letters, 3) == 3 ? 0 : 9);
	}
	close(ends[1]);
	length = read(ends[0], mask, size - 1);
	mask[length < 0 ? 0 : length] = '\0';
	close(ends[0]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void end_task(int local_id, int status)
{
	fake_job.task_id = local_id;
	fake_job.global_id = (uint32_t)local_id + 4;
	fake_job.pid = 4711 + local_id;
	fake_job.status = status;
	CHECK(remote_task_exit(NULL) == ESPANK_SUCCESS);
}

static void without_the_option_nothing_happens(void)
{
	char mask[8];

	begin("#!/bin/sh\ntouch ${0%/*}/started\n");
	CHECK(remote_post_opt(2, words) == ESPANK_SUCCESS && remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(remote_task_post_fork(NULL) == ESPANK_SUCCESS);
	CHECK(start_task(0, mask, sizeof(mask)) == 0 && strcmp(mask, "000") == 0);
	end_task(0, 9);
	CHECK(remote_exit() == ESPANK_SUCCESS);
	CHECK(fake_logged[0] == '\0' && fake_get(ENV_CONTINUE) == NULL && !exists(in_scene("started")));
	CHECK(!exists(in_scene("spool/n1")));
}

static void a_step_is_told_noted_and_its_notes_brought_to_the_run(void)
{
	static const char RELAY[] =
	    "#!/bin/sh\nhere=${0%/*}; mkdir $here/slurm-resilience-r; touch $here/slurm-resilience-r/stop\n"
	    "echo $here/slurm-resilience-r; exec >/dev/null 2>&1; cat >$here/told\n"
	    "rm -r $here/slurm-resilience-r\n";
	char mask[8], *notes;

	begin(RELAY);
	fake_job.local_tasks = 2;
	fake_set("SLURM_RESTART_COUNT", "2");
	CHECK(fake_option("resilient", "chain", 1) == ESPANK_SUCCESS);
	CHECK(fake_option("resilient-run", in_scene("run/deep"), 1) == ESPANK_SUCCESS);
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(strcmp(fake_get(ENV_CONTINUE), "chain") == 0 && strcmp(fake_get(ENV_RUN_DIR), in_scene("run/deep")) == 0);
	CHECK(strcmp(fake_get(ENV_RELAY), in_scene("slurm-resilience-r")) == 0);
	CHECK(strcmp(fake_get(ENV_END_FILE), in_scene("slurm-resilience-r/end")) == 0);
	CHECK(strcmp(fake_get(ENV_RUN), in_scene("run/deep")) == 0);
	fake_job.pid = 4711;
	CHECK(remote_task_post_fork(NULL) == ESPANK_SUCCESS);
	CHECK(start_task(0, mask, sizeof(mask)) == 0 && strcmp(mask, "111") == 0);
	CHECK(start_task(1, mask, sizeof(mask)) == 0 && strcmp(mask, "111") == 0);
	CHECK(exists(in_scene("run/deep/exit-notes/77-2")));
	end_task(0, 0x500);
	CHECK(read_path(in_scene("run/deep/exit-notes/77-2/n1.jsonl")) == NULL);
	end_task(1, 9);
	CHECK(exists(in_scene("run/deep/exit-notes/77-2/n1.jsonl")));
	notes = strdup(read_path(in_scene("run/deep/exit-notes/77-2/n1.jsonl")));
	CHECK(strstr(notes, "\"rank\":4,\"pid\":4711,\"status\":1280,") != NULL);
	CHECK(strstr(notes, "\"rank\":5,\"pid\":4712,\"status\":9,") != NULL);
	CHECK(remote_exit() == ESPANK_SUCCESS && !exists(in_scene("slurm-resilience-r")));
	CHECK(strcmp(read_path(in_scene("told")), "0 4711\n") == 0 && fake_logged[0] == '\0');
	/* the epilog brings them once more, and forgets them */
	CHECK(script_epilog(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(strcmp(read_path(in_scene("run/deep/exit-notes/77-2/n1.jsonl")), notes) == 0);
	CHECK(rmdir(in_scene("spool/n1")) == 0); /* empty */
	free(notes);
}

static void a_life_that_has_a_newer_one_does_not_start(void)
{
	char mask[8];

	begin(NULL);
	CHECK(mkdir(in_scene("run"), 0755) == 0 && mkdir(in_scene("run/exit-notes"), 0755) == 0);
	CHECK(mkdir(in_scene("run/exit-notes/77-1"), 0755) == 0);
	fake_set(ENV_RUN, in_scene("run"));
	CHECK(fake_option("resilient", NULL, 1) == ESPANK_SUCCESS);
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(start_task(0, mask, sizeof(mask)) == 79 && mask[0] == '\0');
	fake_job.step_id = 4294967291U; /* the batch script, which may have to clean up */
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(start_task(0, mask, sizeof(mask)) == 0);
}

static void srun_resilient_s_own_steps_have_no_relay(void)
{
	char mask[8];

	begin("#!/bin/sh\ntouch ${0%/*}/started\n");
	fake_set(ENV_ATTEMPT, "3");
	fake_set(ENV_RELAY, "/of/an/outer/step");
	CHECK(fake_option("resilient", NULL, 1) == ESPANK_SUCCESS);
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(start_task(0, mask, sizeof(mask)) == 0 && strcmp(mask, "000") == 0);
	CHECK(!exists(in_scene("started")) && fake_get(ENV_RELAY) == NULL);
	end_task(0, 0);
	CHECK(exists(in_scene("spool/n1/77.77-0.0.jsonl")) || getuid() != 0);
}

static void a_task_that_cannot_see_the_page_hears_for_itself(void)
{
	char mask[8];

	begin("#!/bin/sh\necho ${0%/*}/slurm-resilience-elsewhere; exec >/dev/null 2>&1; cat\n");
	CHECK(fake_option("resilient", NULL, 1) == ESPANK_SUCCESS);
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS && fake_get(ENV_RELAY) != NULL);
	CHECK(start_task(0, mask, sizeof(mask)) == 0 && strcmp(mask, "000") == 0);
	CHECK(remote_exit() == ESPANK_SUCCESS);
}

static void a_step_that_ends_before_another_node_has_begun_makes_its_run(void)
{
	begin(NULL);
	fake_job.node_id = 1;
	CHECK(fake_option("resilient-run", in_scene("run/deep"), 1) == ESPANK_SUCCESS);
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	end_task(0, 0);
	CHECK(fake_logged[0] == '\0' && exists(in_scene("run/deep/exit-notes/77-0/n1.jsonl")));
}

static void what_slurm_does_not_say_is_no_error(void)
{
	begin(NULL);
	CHECK(fake_option("resilient", NULL, 1) == ESPANK_SUCCESS);
	fake_job.unknown = 1;
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(strstr(fake_logged, "Slurm doesn't say which step this is") != NULL);
	end_task(0, 0);
	CHECK(script_prolog(NULL, 2, words) == ESPANK_SUCCESS && script_epilog(NULL, 2, words) == ESPANK_SUCCESS);
}

static void a_value_that_makes_no_sense_switches_us_off(void)
{
	begin(NULL);
	CHECK(fake_option("resilient", "junk", 1) == ESPANK_SUCCESS && fake_logged[0] == '\0');
	CHECK(remote_user_init(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(strstr(fake_logged, "\"junk\"; the job goes on as without it") != NULL);
	end_task(0, 0);
	CHECK(!exists(in_scene("spool/n1")));
}

static void write_life(int restart)
{
	char name[128], run[PATH_MAX + 64];

	snprintf(name, sizeof(name), "spool/n1/77.77-%d.%u.jsonl", restart, (unsigned)getuid());
	write_scene(name, "{}\n", 0644);
	snprintf(name, sizeof(name), "spool/n1/77.77-%d.%u.run", restart, (unsigned)getuid());
	snprintf(run, sizeof(run), "%s\ngroups %u\n", in_scene("run"), (unsigned)getgid());
	write_scene(name, run, 0644);
	snprintf(name, sizeof(name), "run/exit-notes/77-%d", restart);
	CHECK(mkdir(in_scene(name), 0755) == 0);
	snprintf(name, sizeof(name), "run/exit-notes/77-%d/.n1.jsonl.tmp", restart);
	CHECK(mkfifo(in_scene(name), 0644) == 0); /* hangs whoever writes */
}

/* An epilog that outlasts PrologEpilogTimeout drains its node. */
static void a_place_that_hangs_costs_an_epilog_one_try_and_not_one_for_each_life(void)
{
	time_t began = time(NULL);

	begin(NULL);
	CHECK(mkdir(in_scene("spool/n1"), 0755) == 0);
	CHECK(mkdir(in_scene("run"), 0755) == 0 && mkdir(in_scene("run/exit-notes"), 0755) == 0);
	for (int restart = 0; restart < 4; restart++)
		write_life(restart);
	CHECK(script_epilog(NULL, 2, words) == ESPANK_SUCCESS);
	CHECK(time(NULL) - began < 14); /* four of them, 5 s each, would be 20 */
	CHECK(exists(in_scene("spool/n1")) && rmdir(in_scene("spool/n1")) < 0); /* they wait for another day */
}

static void a_gate_whose_spool_others_can_write_to_writes_nothing_there(void)
{
	char folder_word[PATH_MAX];
	char *gate_words[] = {spool_word, "health=warn", folder_word};

	begin(NULL);
	snprintf(folder_word, sizeof(folder_word), "health_dir=%s", in_scene("checks"));
	CHECK(mkdir(in_scene("checks"), 0755) == 0);
	write_scene("checks/bad", "#!/bin/sh\necho broken; exit 1\n", 0755);
	CHECK(mkdir(in_scene("spool/n1"), 0755) == 0 && chmod(in_scene("spool/n1"), 0777) == 0);
	CHECK(script_prolog(NULL, 3, gate_words) == ESPANK_SUCCESS && !exists(in_scene("spool/n1/77.health")));
	CHECK(chmod(in_scene("spool/n1"), 0755) == 0);
	CHECK(script_prolog(NULL, 3, gate_words) == ESPANK_SUCCESS && exists(in_scene("spool/n1/77.health")));
}

static void in_a_process_of_its_own(const char *name, void (*test)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		scene_run(name, test);
		fflush(stdout);
		_exit(0); /* what the plugin holds till its process ends is no leak */
	}
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "%s ended with status %d\n", name, status);
		exit(1);
	}
}

#define APART(test) in_a_process_of_its_own(#test, test)

int main(void)
{
	APART(without_the_option_nothing_happens);
	APART(a_step_is_told_noted_and_its_notes_brought_to_the_run);
	APART(a_life_that_has_a_newer_one_does_not_start);
	APART(srun_resilient_s_own_steps_have_no_relay);
	APART(a_task_that_cannot_see_the_page_hears_for_itself);
	APART(a_step_that_ends_before_another_node_has_begun_makes_its_run);
	APART(what_slurm_does_not_say_is_no_error);
	APART(a_value_that_makes_no_sense_switches_us_off);
	APART(a_place_that_hangs_costs_an_epilog_one_try_and_not_one_for_each_life);
	APART(a_gate_whose_spool_others_can_write_to_writes_nothing_there);
	return 0;
}
