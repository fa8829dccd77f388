#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errand.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_READS 32 /* of one look: a child that never stops printing must not keep us */

static _Noreturn void be_child(errand_work work, const void *argument, int output, pid_t parent)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	setpgid(0, 0); /* with all that it starts it is killed as one */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || nothing < 0)
		_exit(126);
	/* The signals that we block stay blocked: they are the ranks', and the answer is wanted all the same. */
	signal(SIGPIPE, SIG_DFL);
	if (dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0)
		_exit(126);
	_exit(work(argument));
}

bool errand_start(struct errand *errand, errand_work work, const void *argument, double now_s, double limit_s)
{
	pid_t parent = getpid();
	int ends[2];
	int error;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	fcntl(ends[1], F_SETFL, 0); /* ours alone never waits */
	*errand = (struct errand){ .fd = ends[0], .until_s = now_s + limit_s };
	errand->pid = fork();
	if (errand->pid == 0)
		be_child(work, argument, ends[1], parent);
	error = errno;
	close(ends[1]);
	if (errand->pid > 0) {
		setpgid(errand->pid, errand->pid); /* both do it: whoever comes first */
		return true;
	}
	errand->pid = 0;
	close(ends[0]);
	errno = error;
	return false;
}

static void take_output(struct errand *errand)
{
	char surplus[4096];

	for (int i = 0; i < MOST_READS; i++) {
		size_t room = sizeof(errand->output) - 1 - errand->length;
		ssize_t got = room > 0 ? read(errand->fd, errand->output + errand->length, room)
				       : read(errand->fd, surplus, sizeof(surplus));

		if (got <= 0)
			return;
		if (room > 0)
			errand->length += (size_t)got;
	}
}

static void kill_group(const struct errand *errand)
{
	kill(-errand->pid, SIGKILL);
	kill(errand->pid, SIGKILL); /* where it has no group of its own yet */
}

enum errand_state errand_look(struct errand *errand, double now_s)
{
	siginfo_t how = { 0 };

	if (errand->pid == 0)
		return ERRAND_NONE;
	take_output(errand);
	if (waitid(P_PID, (id_t)errand->pid, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid == 0) {
		if (now_s >= errand->until_s) {
			errand->overdue = true;
			kill_group(errand);
		}
		return ERRAND_RUNS;
	}
	kill_group(errand); /* it is still there, dead: its number can't be another's group yet */
	waitpid(errand->pid, NULL, 0);
	take_output(errand);
	close(errand->fd);
	errand->output[errand->length] = '\0';
	errand->code = how.si_code == CLD_EXITED ? how.si_status : -1;
	errand->pid = 0;
	return ERRAND_CAME_BACK;
}

void errand_end(struct errand *errand)
{
	if (errand->pid == 0)
		return;
	kill_group(errand);
	waitpid(errand->pid, NULL, WNOHANG); /* where it hangs it isn't waited for */
	close(errand->fd);
	errand->pid = 0;
}
