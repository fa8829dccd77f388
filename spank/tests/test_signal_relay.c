/* How the plugin starts, feeds and ends its relay, which is a shell script here. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "relay_child.h"
#include "scene.h"

static struct relay_child relay;
static char why[1024];

static bool start(const char *script)
{
	static char path[PATH_MAX];
	static char *environment[] = {"PATH=/usr/bin:/bin", "HERE=", NULL};
	static char here[PATH_MAX];
	struct user user = {.uid = geteuid(), .gid = getegid()};
	struct relay_request request = {.program = path,
					.runtime = "/dev/shm",
					.life = "77-0",
					.node = "n1",
					.run = "",
					.local_tasks = 2,
					.kill_wait_s = 30,
					.lead_s = "",
					.environment = environment};
	char text[2048];

	snprintf(path, sizeof(path), "%s", in_scene("relay"));
	snprintf(here, sizeof(here), "HERE=%s", scene_folder);
	environment[1] = here;
	/* not dash, which unblocks all signals when it begins */
	snprintf(text, sizeof(text), "#!/bin/bash\n%s\n", script);
	write_scene("relay", text, 0755);
	return relay_child_start(&relay, &request, &user, why, sizeof(why));
}

static const char FOLDER[] = "mkdir $HERE/slurm-resilience-r; echo $HERE/slurm-resilience-r; exec >/dev/null 2>&1; ";

static bool start_good(const char *rest)
{
	char script[1024];

	snprintf(script, sizeof(script), "%s%s", FOLDER, rest);
	return start(script);
}

static void no_child_is_left(void)
{
	CHECK(relay.pid == 0 && waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void it_is_told_of_tasks_and_ends_with_its_input(void)
{
	CHECK(start_good("echo \"$@\" >$HERE/words; cat >$HERE/told; rmdir $HERE/slurm-resilience-r"));
	CHECK(strcmp(relay.folder, in_scene("slurm-resilience-r")) == 0);
	relay_child_tell(&relay, 0, 4711);
	relay_child_tell(&relay, 1, 4712);
	relay_child_end(&relay);
	no_child_is_left();
	CHECK(strcmp(read_path(in_scene("told")), "0 4711\n1 4712\n") == 0);
	CHECK(strcmp(read_path(in_scene("words")), "--runtime=/dev/shm --job=77-0 --step=0 --node-id=0 --local-tasks=2 "
						   "--kill-wait=30 --node=n1 --ask-slurm\n") == 0);
	CHECK(fake_logged[0] == '\0');
	relay_child_end(&relay); /* twice is harmless */
	relay_child_tell(&relay, 0, 1);
}

static void the_job_s_signals_do_not_end_it_before_it_listens(void)
{
	CHECK(start_good("grep SigBlk /proc/self/status >$HERE/mask; cat >/dev/null; rmdir $HERE/slurm-resilience-r"));
	relay_child_end(&relay);
	CHECK(strstr(read_path(in_scene("mask")), "0000000000004a00") != NULL);
}

static bool set_own_score(const char *score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	bool set = fd >= 0 && write(fd, score, strlen(score)) > 0;

	close(fd);
	return set;
}

/* slurmstepd is, and is the user at that moment; what is found on his PATH as squeue would be, too. */
static void it_is_not_spared_when_memory_runs_out(void)
{
	if (getuid() != 0 || strcmp(read_path("/proc/self/oom_score_adj"), "0\n") != 0)
		return;
	CHECK(chmod(scene_folder, 0777) == 0 && set_own_score("500")); /* up, for which nobody needs a right */
	CHECK(setegid(65534) == 0 && seteuid(65534) == 0);
	CHECK(start_good("cat /proc/self/oom_score_adj >$HERE/score; id -u >>$HERE/score; cat >/dev/null; rmdir "
			 "$HERE/slurm-resilience-r"));
	CHECK(seteuid(0) == 0 && setegid(0) == 0 && set_own_score("0"));
	relay_child_end(&relay);
	CHECK(strcmp(read_path(in_scene("score")), "0\n65534\n") == 0);
}

static void one_that_cannot_says_why(void)
{
	CHECK(!start("echo no room in /dev/shm >&2; exit 1") && strcmp(why, "no room in /dev/shm") == 0);
	no_child_is_left();
	CHECK(!start("exit 3") && strcmp(why, "it said nothing") == 0);
	CHECK(!start("echo /etc/passwd") && strcmp(why, "/etc/passwd") == 0); /* no runtime folder */
	no_child_is_left();
	CHECK(relay.folder[0] == '\0' && fake_logged[0] == '\0');
}

static void one_that_is_not_there_is_named(void)
{
	struct user user = {.uid = getuid(), .gid = getgid()};
	char *nothing[] = {NULL};
	struct relay_request request = {.program = "/nonexistent/relay",
					.runtime = "/dev/shm",
					.life = "77-0",
					.node = "n1",
					.run = "",
					.lead_s = "",
					.environment = nothing};

	CHECK(!relay_child_start(&relay, &request, &user, why, sizeof(why)));
	CHECK(strstr(why, "/nonexistent/relay") != NULL && strstr(why, "No such file") != NULL);
	no_child_is_left();
}

static void one_that_never_answers_is_given_up(void)
{
	CHECK(!start("exec sleep 1000") && strstr(why, "no answer within 5 s") != NULL);
	no_child_is_left();
}

static void one_that_does_not_end_is_killed_and_its_folder_removed(void)
{
	CHECK(start_good("echo >$HERE/slurm-resilience-r/stop; exec sleep 1000"));
	relay_child_end(&relay);
	no_child_is_left();
	CHECK(!exists(in_scene("slurm-resilience-r")) && !exists(in_scene("slurm-resilience-r/stop")));
}

static void one_that_died_harms_nobody(void)
{
	CHECK(start_good("exec <&-; exit 1"));
	while (waitid(P_PID, (id_t)relay.pid, &(siginfo_t){0}, WEXITED | WNOWAIT) < 0)
		CHECK(errno == EINTR);
	relay_child_tell(&relay, 0, 4711); /* SIGPIPE would end us */
	CHECK(strstr(fake_logged, "Broken pipe") != NULL);
	CHECK(waitpid(relay.pid, NULL, 0) == relay.pid); /* slurmstepd waits for every child it has */
	relay_child_end(&relay);
	no_child_is_left();
	CHECK(!exists(in_scene("slurm-resilience-r")));
}

static void another_process_never_touches_it(void)
{
	int status;
	pid_t pid;

	CHECK(start_good("cat >$HERE/told; rmdir $HERE/slurm-resilience-r"));
	pid = fork();
	if (pid == 0) { /* a task that is about to start */
		relay_child_tell(&relay, 9, 9);
		relay_child_end(&relay);
		_exit(relay.pid != 0 ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	relay_child_tell(&relay, 0, 4711);
	relay_child_end(&relay);
	CHECK(strcmp(read_path(in_scene("told")), "0 4711\n") == 0);
}

int main(void)
{
	RUN(it_is_told_of_tasks_and_ends_with_its_input);
	RUN(the_job_s_signals_do_not_end_it_before_it_listens);
	RUN(it_is_not_spared_when_memory_runs_out);
	RUN(one_that_cannot_says_why);
	RUN(one_that_is_not_there_is_named);
	RUN(one_that_never_answers_is_given_up);
	RUN(one_that_does_not_end_is_killed_and_its_folder_removed);
	RUN(one_that_died_harms_nobody);
	RUN(another_process_never_touches_it);
	return 0;
}
