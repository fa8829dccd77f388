#include "user_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

/* What parent and child share. */
struct sheet {
	int finished; /* 1: `error` is the work's answer */
	int error;
	struct user_report report;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool child_reap(pid_t pid, int limit_ms, int *status)
{
	int64_t until_ms = now_ms() + limit_ms; /* pauses that are added up get too long on a busy machine */
	int pause_ms = 1;

	for (;;) {
		pid_t ended = waitpid(pid, status, WNOHANG);

		if (ended == pid)
			return true;
		if (ended < 0 && errno != EINTR) {
			*status = -1; /* slurmstepd waits for every child it has, and was quicker */
			return true;
		}
		if (now_ms() >= until_ms)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
		pause_ms = pause_ms < 16 ? pause_ms * 2 : 20;
	}
}

static void close_range_of(unsigned first, unsigned last)
{
	if (first > last)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, last, 0) == 0)
		return;
#endif
	long most = sysconf(_SC_OPEN_MAX);

	if (most < 0 || most > 65536)
		most = 65536;
	for (unsigned fd = first; fd <= last && fd < (unsigned)most; fd++)
		close((int)fd);
}

void child_close_from(int first)
{
	close_range_of((unsigned)first, ~0U);
}

void child_close_files(int keep)
{
	int nothing = open("/dev/null", O_RDWR);

	/* The task's stderr is one of these: as long as it is open, srun waits for the step's output to end. */
	for (int fd = STDIN_FILENO; nothing >= 0 && fd <= STDERR_FILENO; fd++)
		if (fd != keep && fd != nothing)
			dup2(nothing, fd);
	if (keep > STDERR_FILENO) {
		close_range_of(STDERR_FILENO + 1, (unsigned)keep - 1);
		close_range_of((unsigned)keep + 1, ~0U);
	} else
		close_range_of(STDERR_FILENO + 1, ~0U);
}

static void be_child(struct sheet *sheet, const struct user *user, int keep, user_work work, const void *argument)
{
	child_close_files(keep);
	if (!user_become(user)) {
		text_copy(sheet->report.doing, sizeof(sheet->report.doing), "becoming the user");
		sheet->error = errno;
	} else
		sheet->error = work(argument, &sheet->report);
	sheet->finished = 1;
	_exit(0);
}

/* It is not killed where it may be another process by now. */
static void kill_and_reap(pid_t pid, int *status)
{
	siginfo_t info;

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
		kill(pid, SIGKILL);
	child_reap(pid, 1000, status);
}

enum user_child_end user_child_run(const struct user *user, int keep, user_work work, const void *argument, int limit_s,
				   struct user_report *report, int *error)
{
	enum user_child_end end = USER_CHILD_LATE;
	struct sheet *sheet;
	sigset_t all, before;
	int status = -1;
	pid_t pid;

	memset(report, 0, sizeof(*report));
	sheet = mmap(NULL, sizeof(*sheet), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sheet == MAP_FAILED) {
		*error = errno;
		return USER_CHILD_FAILED;
	}
	/* Under proctrack/linuxproc a job's signals come to every child of slurmstepd. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		be_child(sheet, user, keep, work, argument);
	*error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0) {
		text_copy(report->doing, sizeof(report->doing), "starting a child");
		munmap(sheet, sizeof(*sheet));
		return USER_CHILD_FAILED;
	}
	if (!child_reap(pid, limit_s * 1000, &status))
		kill_and_reap(pid, &status);
	*report = sheet->report;
	report->doing[sizeof(report->doing) - 1] = report->path[PATH_MAX - 1] = report->answer[PATH_MAX - 1] = '\0';
	if (sheet->finished == 1) {
		*error = sheet->error;
		end = *error == 0 ? USER_CHILD_DONE : USER_CHILD_FAILED;
	}
	munmap(sheet, sizeof(*sheet));
	return end;
}
