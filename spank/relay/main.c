#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "end_of_time.h"
#include "loop.h"
#include "say.h"

#define LEFT_BADLY 1
#define CALLED_BADLY 2

/* Three descriptors that are open, so that no file of ours is ever taken for one of them. */
static bool have_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* What Slurm, srun and terminals send: none of it may end us. Returns a signalfd for those that are the ranks' too. */
static int hear_signals(void)
{
	static const int unheard[] = { SIGHUP,	SIGINT,	 SIGQUIT, SIGPIPE, SIGALRM,   SIGTSTP,
				       SIGTTIN, SIGTTOU, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF };
	sigset_t heard;

	for (size_t i = 0; i < sizeof(unheard) / sizeof(unheard[0]); i++)
		signal(unheard[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* ignored, it would reap our children */
	sigemptyset(&heard);
	sigaddset(&heard, SIGTERM);
	sigaddset(&heard, SIGUSR1);
	sigaddset(&heard, SIGUSR2);
	if (sigprocmask(SIG_SETMASK, &heard, NULL) < 0)
		return -1;
	return signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
}

static double time_from_environment(const char *name)
{
	const char *text = getenv(name);
	double seconds;

	return text != NULL && end_parse_epoch(text, &seconds) ? seconds : (double)NAN;
}

static void take_clocks(struct relay *relay)
{
	double now_s = clock_monotonic_s();
	double start_s = time_from_environment("SLURM_JOB_START_TIME");

	relay->offset_s = end_clock_offset_s(now_s, clock_wall_s(), start_s);
	relay->start_s = isnan(start_s) ? now_s + relay->offset_s : start_s;
}

/* The environment has the end as it was when the job began: one that is over was moved since. */
static double end_from_environment(void)
{
	double end_s = time_from_environment("SLURM_JOB_END_TIME");

	return end_s > clock_wall_s() ? end_s : (double)NAN;
}

static bool make_folder(struct relay *relay)
{
	const struct arguments *arguments = relay->arguments;
	char name[160];

	snprintf(name, sizeof(name), "slurm-resilience-%lu-relay-%.64s-s%u-n%u", (unsigned long)getuid(),
		 arguments->life, arguments->step, arguments->node_id);
	return runtime_folder_make(&relay->folder, arguments->parent, name, arguments->local_tasks);
}

/* The plugin reads one line and goes on; whoever doesn't hear of the folder can't use it. */
static bool announce(const struct runtime_folder *folder)
{
	char line[PATH_MAX + 1];
	int length = snprintf(line, sizeof(line), "%s\n", folder->path);
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (write(STDOUT_FILENO, line, (size_t)length) != length || nothing < 0) {
		say("nobody hears of the runtime folder: %s", strerror(errno));
		return false;
	}
	dup2(nothing, STDOUT_FILENO); /* the plugin's pipe is at its end */
	close(nothing);
	return true;
}

static bool serve(struct relay *relay, mode_t user_umask)
{
	if (!ranks_open(&relay->ranks, relay->arguments->local_tasks)) {
		say("no memory for %u ranks", relay->arguments->local_tasks);
		return false;
	}
	take_clocks(relay);
	end_watch_open(&relay->end, relay->arguments, end_from_environment(), user_umask);
	relay_tell_end(relay, clock_monotonic_s());
	if (!announce(&relay->folder))
		return false;
	relay_loop(relay);
	return true;
}

int main(int argc, char **argv)
{
	static struct arguments arguments;
	static struct relay relay; /* large */
	char error[256];
	mode_t user_umask = umask(077);
	bool served;

	if (!have_standard_files())
		return LEFT_BADLY;
	if (!arguments_parse(argc - 1, argv + 1, &arguments, error, sizeof(error))) {
		say("%s", error);
		return CALLED_BADLY;
	}
	say_as_node(arguments.node_id);
	relay.arguments = &arguments;
	relay.promise_s = stop_promise_s(arguments.kill_wait_s);
	relay.told_end_s = NAN;
	relay.signals = hear_signals();
	if (relay.signals < 0 || chdir("/") < 0) { /* the folder we were started in may lie on what hangs */
		say("it can't start: %s", strerror(errno));
		return LEFT_BADLY;
	}
	if (!make_folder(&relay))
		return LEFT_BADLY;
	served = serve(&relay, user_umask);
	end_watch_close(&relay.end);
	runtime_folder_remove(&relay.folder);
	ranks_close(&relay.ranks);
	return served ? 0 : LEFT_BADLY;
}
