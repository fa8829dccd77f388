#include "relay_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "text.h"
#include "user_child.h"
#include "user_files.h"

#define WORDS_MAX 16

struct command {
	char *words[WORDS_MAX];
	int count;
	char text[4 * PATH_MAX];
	size_t used;
};

static void add(struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct command *command, const char *format, ...)
{
	size_t left = sizeof(command->text) - command->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(command->text + command->used, left, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= left || command->count >= WORDS_MAX - 1)
		return;
	command->words[command->count++] = command->text + command->used;
	command->used += (size_t)length + 1;
}

static void write_command(struct command *command, const struct relay_request *request)
{
	memset(command, 0, sizeof(*command));
	add(command, "%s", request->program);
	add(command, "--runtime=%s", request->runtime);
	add(command, "--job=%s", request->life);
	add(command, "--step=%" PRIu32, request->step);
	add(command, "--node-id=%" PRIu32, request->node_id);
	add(command, "--local-tasks=%" PRIu32, request->local_tasks);
	add(command, "--kill-wait=%d", request->kill_wait_s);
	add(command, "--node=%s", request->node);
	if (request->lead_s[0] != '\0')
		add(command, "--lead=%s", request->lead_s);
	if (request->run[0] != '\0')
		add(command, "--run=%s", request->run);
	if (request->node_id == 0)
		add(command, "--ask-slurm");
}

/* Handlers and masks are slurmstepd's; what a job's signals are must not end the relay before it has read its line. */
static void settle_signals(void)
{
	sigset_t blocked;

	for (int number = 1; number < NSIG; number++)
		signal(number, number == SIGPIPE ? SIG_IGN : SIG_DFL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/*
 * slurmstepd is spared when memory runs out. A user's process must not inherit that, nor what it finds on a user's
 * PATH. slurmstepd is the user for the moment, and of a process that has changed its user these files are root's alone.
 */
static void be_mortal(void)
{
	int fd;

	if (geteuid() != 0 && seteuid(0) < 0) {
		/* a slurmd that isn't root's: there is only one user */
	}
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "0", 1) < 0) {
		/* then it is spared too */
	}
	close(fd);
}

static void be_relay(const struct command *command, const struct relay_request *request, const struct user *user,
		     int input, int output, pid_t parent)
{
	settle_signals();
	be_mortal();
	input = fcntl(input, F_DUPFD, STDERR_FILENO + 1);
	output = fcntl(output, F_DUPFD, STDERR_FILENO + 1);
	if (input < 0 || output < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0)
		_exit(126);
	/* What it says before its line is why it can't; nobody hears it afterwards. */
	dup2(output, STDERR_FILENO);
	child_close_from(STDERR_FILENO + 1);
	if (!user_become(user)) {
		dprintf(STDERR_FILENO, "becoming uid %lu: %s\n", (unsigned long)user->uid, strerror(errno));
		_exit(126);
	}
	/*
	 * slurmstepd's death ends its input, and it tidies up. This is for the moment before it listens: it ignores
	 * SIGHUP from then on. Set after becoming the user, which would clear it.
	 */
	prctl(PR_SET_PDEATHSIG, SIGHUP);
	if (getppid() != parent || chdir("/") < 0)
		_exit(126);
	execve(command->words[0], command->words, request->environment);
	dprintf(STDERR_FILENO, "it can't be started from %s: %s\n", command->words[0], strerror(errno));
	_exit(127);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* It is the user's process, and its folder is removed should it die. */
static bool is_runtime_folder(const char *line)
{
	const char *name = strrchr(line, '/');

	return text_is_absolute_path(line) && strncmp(name, "/slurm-resilience-", strlen("/slurm-resilience-")) == 0;
}

/* The path, in the first line that is one; the line before it is why there is none. */
static bool read_answer(int fd, char folder[PATH_MAX], char *why, size_t size)
{
	int64_t until = now_ms() + RELAY_ANSWER_LIMIT_S * 1000;
	char line[PATH_MAX];
	size_t length = 0;

	snprintf(why, size, "it said nothing");
	for (;;) {
		struct pollfd ear = {.fd = fd, .events = POLLIN};
		int64_t left = until - now_ms();
		char byte;

		if (left <= 0 || poll(&ear, 1, (int)left) == 0) {
			snprintf(why, size, "no answer within %d s", RELAY_ANSWER_LIMIT_S);
			return false;
		}
		if (!(ear.revents & (POLLIN | POLLHUP | POLLERR)))
			continue;
		if (read(fd, &byte, 1) != 1)
			return false;
		if (byte != '\n') {
			if (length < sizeof(line) - 1)
				line[length++] = byte;
			continue;
		}
		line[length] = '\0';
		length = 0;
		if (is_runtime_folder(line) && text_copy(folder, PATH_MAX, line))
			return true;
		snprintf(why, size, "%.*s", (int)size - 1, line);
	}
}

/* Whether it is still a child of ours: only then is the number its own. */
static bool is_mine(const struct relay_child *relay)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)relay->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

bool relay_child_start(struct relay_child *relay, const struct relay_request *request, const struct user *user,
		       char *why, size_t size)
{
	static struct command command; /* large */
	int input[2], output[2], error;
	pid_t parent = getpid();

	memset(relay, 0, sizeof(*relay));
	relay->user = *user;
	write_command(&command, request);
	if (pipe2(input, O_CLOEXEC) < 0) {
		snprintf(why, size, "%s", strerror(errno));
		return false;
	}
	if (pipe2(output, O_CLOEXEC) < 0) {
		snprintf(why, size, "%s", strerror(errno));
		close(input[0]);
		close(input[1]);
		return false;
	}
	relay->pid = fork();
	if (relay->pid == 0)
		be_relay(&command, request, user, input[0], output[1], parent);
	error = errno;
	close(input[0]);
	close(output[1]);
	relay->pipe = input[1];
	relay->owner = parent;
	if (relay->pid < 0) {
		snprintf(why, size, "%s", strerror(error));
		relay->pid = 0;
		close(relay->pipe);
		close(output[0]);
		return false;
	}
	fcntl(relay->pipe, F_SETFL, O_NONBLOCK); /* a relay that doesn't read holds nobody up */
	if (!read_answer(output[0], relay->folder, why, size)) {
		close(output[0]);
		relay_child_end(relay);
		return false;
	}
	close(output[0]);
	return true;
}

void relay_child_tell(struct relay_child *relay, uint32_t local_id, pid_t pid)
{
	char line[64];
	int length;
	sigset_t pipe_signal, before, pending;

	if (relay->pid == 0 || getpid() != relay->owner)
		return;
	length = snprintf(line, sizeof(line), "%" PRIu32 " %ld\n", local_id, (long)pid);
	/* A relay that is gone must not take slurmstepd with it. */
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
	if (write(relay->pipe, line, (size_t)length) != length) {
		int error = errno;

		if (error == EPIPE && !sigismember(&pending, SIGPIPE))
			sigtimedwait(&pipe_signal, NULL, &(struct timespec){0});
		resilience_log_error("the signal relay doesn't hear of task %" PRIu32 ": %s", local_id,
				     strerror(error));
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int remove_folder(const void *folder, struct user_report *report)
{
	(void)report;
	return user_files_remove_folder(folder);
}

/* A relay that was killed could not. */
static void tidy_up(const struct relay_child *relay)
{
	static struct user_report report; /* large */
	int error;

	if (relay->folder[0] != '\0')
		user_child_run(&relay->user, -1, remove_folder, relay->folder, RELAY_END_LIMIT_S, &report, &error);
}

void relay_child_end(struct relay_child *relay)
{
	int status = -1;

	if (relay->pid == 0 || getpid() != relay->owner)
		return;
	close(relay->pipe); /* it ends by itself */
	if (!child_reap(relay->pid, RELAY_END_LIMIT_S * 1000, &status)) {
		if (is_mine(relay))
			kill(relay->pid, SIGKILL);
		child_reap(relay->pid, 1000, &status);
		status = -1;
	}
	relay->pid = 0;
	if (status != 0)
		tidy_up(relay);
	relay->folder[0] = '\0';
}
