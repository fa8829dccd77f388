/* The health gate: checks that are deaf, stuck or noisy, and the time they can cost. */
#include "health_scene.h"

static bool kill_is_deaf;
static pid_t spared;

/* In place of the C library's: for as long as it is deaf, a check is like one that sits in the kernel. */
int kill(pid_t pid, int number)
{
	if (kill_is_deaf && number == SIGKILL) {
		spared = pid;
		return 0;
	}
	return (int)syscall(SYS_kill, pid, number);
}

static void a_check_that_hangs_is_named_and_the_others_are_heard(void)
{
	char pid_file[PATH_MAX];
	double took_s;

	add("deaf", "trap '' TERM HUP INT; echo $$ >\"${0%/*}/pid\"; echo half a wo; while :; do sleep 1; done");
	add("ill", "echo ill; exit 1");
	add("well", "exit 0");
	took_s = gate(HEALTH_WARN, 2);
	assert(took_s >= 2 && took_s < 30);
	assert(findings() == 2);
	assert(strcmp(found[0].text, "deaf: did not answer within 2 s") == 0);
	assert(strcmp(found[1].text, "ill: ill") == 0);
	snprintf(pid_file, sizeof(pid_file), "%s", in_checks("pid"));
	assert(eventually_gone(pid_file));
}

static void a_check_that_cannot_be_killed_is_not_waited_for(void)
{
	double took_s;

	add("stuck", "sleep 600");
	kill_is_deaf = true;
	took_s = gate(HEALTH_WARN, 1);
	kill_is_deaf = false;
	assert(took_s >= 1 && took_s < 30);
	assert_only_finding("stuck: did not answer within 1 s, and hangs in the kernel: it can't be killed");
	assert(spared < 0 && kill(spared, SIGKILL) == 0);
	assert(waitpid(-1, NULL, 0) == -spared);
}

/* A frozen process doesn't die of SIGKILL before it is thawed (cgroup v1): as near to a dead disk as one gets. */
static void a_frozen_check_is_not_waited_for(void)
{
	static const char group[] = "/sys/fs/cgroup/freezer/test_health";
	char body[1024];

	if (access("/sys/fs/cgroup/freezer/tasks", W_OK) < 0 || (mkdir(group, 0755) < 0 && errno != EEXIST)) {
		puts("  passed over: no freezer of cgroup v1 here");
		return;
	}
	snprintf(body, sizeof(body), "echo $$ >%s/tasks; echo FROZEN >%s/freezer.state; exit 0", group, group);
	add("frozen", body);
	assert(gate(HEALTH_EXCLUDE, 2) < 30);
	assert_only_finding("frozen: did not answer within 2 s, and hangs in the kernel: it can't be killed");
	snprintf(body, sizeof(body), "echo THAWED >%s/freezer.state", group);
	assert(system(body) == 0);
	assert(waitpid(-1, NULL, 0) > 0);
	assert(rmdir(group) == 0);
}

static void children_that_keep_the_output_open_are_not_waited_for(void)
{
	char pid_file[PATH_MAX];

	add("a", "sleep 600 & echo $! >\"${0%/*}/pid\"; echo left a child; exit 1");
	assert(gate(HEALTH_WARN, PATIENT_S) < PATIENT_S);
	assert_only_finding("a: left a child");
	snprintf(pid_file, sizeof(pid_file), "%s", in_checks("pid"));
	assert(eventually_gone(pid_file));
}

static void a_child_in_a_session_of_its_own_is_not_waited_for(void)
{
	char command[PATH_MAX + 32];

	add("a", "setsid sleep 600 & echo $! >\"${0%/*}/pid\"; sleep 1; echo left a daemon; exit 1");
	assert(gate(HEALTH_WARN, PATIENT_S) < PATIENT_S);
	assert_only_finding("a: left a daemon");
	snprintf(command, sizeof(command), "kill -9 $(cat %s)", in_checks("pid"));
	assert(system(command) == 0);
}

static void whoever_writes_for_ever_ends_with_the_time(void)
{
	add("yes", "exec yes");
	add("ill", "echo ill; exit 1");
	assert(gate(HEALTH_WARN, 2) < 30);
	assert(findings() == 2);
	assert(strcmp(found[0].text, "ill: ill") == 0);
	assert(strcmp(found[1].text, "yes: did not answer within 2 s") == 0);
}

static void ten_megabytes_and_no_line_break_become_200_bytes(void)
{
	add("loud", "head -c 10000000 /dev/zero | tr '\\0' x; exit 1");
	add("quiet", "echo quiet; exit 1");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 2);
	assert(strlen(found[0].text) == strlen("loud: ") + 200);
	assert(strspn(found[0].text + strlen("loud: "), "x") == 200);
	assert(strcmp(found[1].text, "quiet: quiet") == 0);
}

int main(void)
{
	static const struct test tests[] = {
	    TEST(a_check_that_hangs_is_named_and_the_others_are_heard),
	    TEST(a_check_that_cannot_be_killed_is_not_waited_for),
	    TEST(a_frozen_check_is_not_waited_for),
	    TEST(children_that_keep_the_output_open_are_not_waited_for),
	    TEST(a_child_in_a_session_of_its_own_is_not_waited_for),
	    TEST(whoever_writes_for_ever_ends_with_the_time),
	    TEST(ten_megabytes_and_no_line_break_become_200_bytes),
	};

	return RUN_ALL(tests);
}
