#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "health_check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_FULL 65536
#define MOST_DESCRIPTORS 65536

/* The prolog's other files are none of a check's business. */
static void close_others(void)
{
	long most = sysconf(_SC_OPEN_MAX);

#ifdef SYS_close_range
	if (syscall(SYS_close_range, 3U, ~0U, 0U) == 0)
		return;
#endif
	if (most < 0 || most > MOST_DESCRIPTORS)
		most = MOST_DESCRIPTORS;
	for (int descriptor = 3; descriptor < most; descriptor++)
		close(descriptor);
}

/* What a parent ignores or blocks is inherited, and a shell can't even undo it. */
static void reset_signals(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child: only calls that are safe after a fork. */
static void become(struct health_check *check, int output, char *const environment[])
{
	static const char sorry[] = "it can't be executed; is its first line one like #!/bin/sh?\n";
	char *const arguments[] = {check->path, NULL};
	int nothing = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* slurmd can kill the prolog: nothing of it may be left */
	if (nothing < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
	    dup2(nothing, STDERR_FILENO) < 0)
		_exit(127);
	close_others();
	reset_signals();
	umask(022);
	if (chdir("/") == 0)
		execve(check->path, arguments, environment);
	if (write(STDOUT_FILENO, sorry, sizeof(sorry) - 1) < 0)
		_exit(126);
	_exit(127);
}

bool health_check_start(struct health_check *check, char *const environment[])
{
	int ends[2];

	check->pid = 0;
	check->output = -1;
	check->ended = check->late = check->heard = false;
	check->said_length = 0;
	check->said[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	/* Above the standard ones, or dup2 in the child would close what it copies: the prolog may have none open. */
	for (int end = 0; end < 2; end++) {
		int high = fcntl(ends[end], F_DUPFD_CLOEXEC, 3);
		int error = errno;

		close(ends[end]);
		ends[end] = high;
		if (high < 0) {
			close(ends[1 - end]);
			errno = error;
			return false;
		}
	}
	check->pid = fork();
	if (check->pid == 0)
		become(check, ends[1], environment);
	close(ends[1]);
	if (check->pid < 0) {
		int error = errno;

		close(ends[0]);
		check->pid = 0;
		errno = error;
		return false;
	}
	setpgid(check->pid, check->pid); /* here too: who is first is not known, and we may want to kill it at once */
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	check->output = ends[0];
	return true;
}

/* The first line that isn't empty, as ASCII that can be shown on any terminal. */
static void hear(struct health_check *check, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count && !check->heard; i++) {
		char byte = bytes[i];

		if (byte == '\n' || byte == '\r') {
			check->heard = check->said_length > 0;
		} else if (check->said_length < HEALTH_SAID_MAX) {
			check->said[check->said_length++] = byte >= 0x20 && byte < 0x7f ? byte : '?';
			check->said[check->said_length] = '\0';
		}
	}
}

void health_check_hang_up(struct health_check *check)
{
	if (check->output >= 0)
		close(check->output);
	check->output = -1;
}

void health_check_listen(struct health_check *check)
{
	char bytes[PIPE_FULL];
	ssize_t count;

	if (check->output < 0)
		return;
	/* Read to the end, for a check that meets a closed or full pipe would leave otherwise than it meant. */
	count = read(check->output, bytes, sizeof(bytes));
	if (count > 0)
		hear(check, bytes, (size_t)count);
	else if (count == 0 || (errno != EAGAIN && errno != EINTR))
		health_check_hang_up(check);
}

bool health_check_ended(struct health_check *check)
{
	siginfo_t info = {0};

	if (check->ended || check->pid == 0)
		return check->ended;
	check->status = 0; /* if somebody else has reaped it, nothing is known against the node */
	if (waitid(P_PID, (id_t)check->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
		if (info.si_pid == 0)
			return false;
		health_check_kill(check); /* before it is reaped: nobody else can have the number of its group */
		waitpid(check->pid, &check->status, 0);
	}
	health_check_listen(check); /* its last words; whoever of its children holds the pipe isn't waited for */
	health_check_hang_up(check);
	check->pid = 0;
	check->ended = true;
	return true;
}

void health_check_kill(struct health_check *check)
{
	if (check->pid > 0)
		kill(-check->pid, SIGKILL);
}
