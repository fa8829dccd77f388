#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "scene.h"
#include "user_child.h"

#define NOBODY 65534

static struct user_report report;
static int error;

static struct user myself(void)
{
	return (struct user){.uid = getuid(), .gid = getgid()};
}

static enum user_child_end run(struct user user, int keep, user_work work, const void *argument, int limit_s)
{
	error = 0;
	return user_child_run(&user, keep, work, argument, limit_s, &report, &error);
}

static int answer(const void *argument, struct user_report *to)
{
	snprintf(to->answer, sizeof(to->answer), "%s %d", (const char *)argument, (int)getuid());
	return 0;
}

static int fail(const void *argument, struct user_report *to)
{
	(void)argument;
	snprintf(to->doing, sizeof(to->doing), "writing");
	return EROFS;
}

static int hang(const void *argument, struct user_report *to)
{
	(void)argument;
	(void)to;
	while (pause() != 0) {
	}
	return 0;
}

static int die(const void *argument, struct user_report *to)
{
	(void)argument;
	(void)to;
	raise(SIGKILL);
	return 0;
}

static int write_to_kept(const void *argument, struct user_report *to)
{
	int other = *(const int *)argument;

	(void)to;
	if (fcntl(other, F_GETFD) >= 0)
		return EEXIST; /* it should be closed */
	for (int fd = other - 1; fd > STDERR_FILENO; fd--)
		if (write(fd, "x", 1) == 1)
			return 0;
	return EBADF;
}

static int is_deaf(const void *argument, struct user_report *to)
{
	sigset_t blocked;

	(void)argument;
	(void)to;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	return sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1) ? 0 : EINTR;
}

static void what_the_work_answers_comes_back(void)
{
	char wanted[32];

	snprintf(wanted, sizeof(wanted), "hello %d", (int)getuid());
	CHECK(run(myself(), -1, answer, "hello", 60) == USER_CHILD_DONE && strcmp(report.answer, wanted) == 0);
	CHECK(run(myself(), -1, fail, NULL, 60) == USER_CHILD_FAILED && error == EROFS);
	CHECK(strcmp(report.doing, "writing") == 0);
}

static void it_is_the_user_for_good(void)
{
	gid_t groups[] = {NOBODY, 100};
	struct user nobody = {.uid = NOBODY, .gid = NOBODY, .groups = groups, .group_count = 2};

	if (getuid() != 0) {
		CHECK(run(nobody, -1, answer, "", 60) == USER_CHILD_FAILED && error == EPERM);
		return;
	}
	CHECK(run(nobody, -1, answer, "x", 60) == USER_CHILD_DONE && strcmp(report.answer, "x 65534") == 0);
	/* slurmstepd is the user for the moment when it calls us */
	CHECK(seteuid(NOBODY) == 0);
	CHECK(run(nobody, -1, answer, "y", 60) == USER_CHILD_DONE && strcmp(report.answer, "y 65534") == 0);
	CHECK(seteuid(0) == 0);
}

static void one_that_hangs_is_killed_and_reaped(void)
{
	CHECK(run(myself(), -1, hang, NULL, 1) == USER_CHILD_LATE);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void one_that_dies_is_no_success(void)
{
	CHECK(run(myself(), -1, die, NULL, 60) == USER_CHILD_LATE);
}

static void it_holds_nothing_open_but_what_it_needs(void)
{
	int ends[2], other;

	CHECK(pipe(ends) == 0);
	other = fcntl(ends[0], F_DUPFD, ends[1] + 1);
	CHECK(run(myself(), ends[1], write_to_kept, &other, 60) == USER_CHILD_DONE);
	close(ends[0]);
	close(ends[1]);
	close(other);
}

static void the_job_s_signals_do_not_reach_it(void)
{
	sigset_t before, after;

	sigprocmask(SIG_BLOCK, NULL, &before);
	CHECK(run(myself(), -1, is_deaf, NULL, 60) == USER_CHILD_DONE);
	sigprocmask(SIG_BLOCK, NULL, &after);
	for (int number = 1; number < NSIG; number++)
		CHECK(sigismember(&before, number) == sigismember(&after, number));
}

int main(void)
{
	RUN(what_the_work_answers_comes_back);
	RUN(it_is_the_user_for_good);
	RUN(one_that_hangs_is_killed_and_reaped);
	RUN(one_that_dies_is_no_success);
	RUN(it_holds_nothing_open_but_what_it_needs);
	RUN(the_job_s_signals_do_not_reach_it);
	return 0;
}
