#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loop.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "end_of_time.h"
#include "say.h"
#include "seconds.h"
#include "stop_page.h"

#define LOOK_EVERY_S 0.25
#define RUN_EVERY_S 5.0
#define TELL_AGAIN_S 5.0

static double end_on_our_clock_s(const struct relay *relay)
{
	return isnan(relay->end.known_s) ? (double)INFINITY : relay->end.known_s - relay->offset_s;
}

static void ask_to_stop(struct relay *relay, const struct stop_request *request)
{
	bool first = relay->standing.reason == STOP_NONE;

	if (!stop_merge(&relay->standing, request))
		return;
	if (!stop_page_write(relay->folder.stop, &relay->standing))
		say("the stop page of %s can't be written: %s", relay->folder.path, strerror(errno));
	else if (first)
		say("%s: the ranks of this node are asked to stop", relay->standing.because);
}

static void take_signal(struct relay *relay, int signal, const char *whom, double now_s)
{
	struct stop_request request = stop_for_signal(signal, whom, now_s, relay->promise_s, end_on_our_clock_s(relay));

	ask_to_stop(relay, &request);
}

static void look_at_ranks(struct relay *relay, double now_s)
{
	struct ranks_found found = ranks_look(&relay->ranks);
	char whom[64];

	if (found.pid == 0)
		return;
	snprintf(whom, sizeof(whom), "rank process %ld", (long)found.pid);
	take_signal(relay, found.signal, whom, now_s);
}

/* Where every process of the step is signalled we are among them. */
static void hear_own_signals(struct relay *relay, double now_s)
{
	struct signalfd_siginfo came[8];
	ssize_t length;
	char whom[64];

	snprintf(whom, sizeof(whom), "the relay, process %ld", (long)getpid());
	while ((length = read(relay->signals, came, sizeof(came))) > 0)
		for (size_t i = 0; i < (size_t)length / sizeof(came[0]); i++)
			take_signal(relay, (int)came[i].ssi_signo, whom, now_s);
}

static void look_at_clock(struct relay *relay, double now_s)
{
	double end_s = end_on_our_clock_s(relay);
	double whole_s = relay->end.known_s - relay->start_s;
	double asked_s = relay->arguments->lead_s;
	struct stop_request request;
	double lead_s;

	if (isinf(end_s))
		return;
	lead_s = end_lead_s(asked_s, whole_s);
	if (asked_s > lead_s && !relay->said_short) {
		relay->said_short = true;
		say("the ranks are asked to stop %.0f s before the end, not %.0f s: the job has %.0f s in all", lead_s,
		    asked_s, whole_s);
	}
	request = stop_for_end(now_s, relay->promise_s, end_s);
	/* After a SIGTERM Slurm's promise counts, not the end. A warning, or the end itself, may have been moved up. */
	if (now_s >= end_s - lead_s || relay->standing.reason == STOP_WARNING ||
	    relay->standing.reason == STOP_TIME_LIMIT)
		ask_to_stop(relay, &request);
}

void relay_tell_end(struct relay *relay, double now_s)
{
	char text[64];
	int length;

	if (isnan(relay->end.known_s) || relay->end.known_s == relay->told_end_s || now_s < relay->next_tell_s)
		return;
	length = end_to_json(relay->end.known_s, text, sizeof(text));
	if (runtime_folder_put(&relay->folder, "end", text, (size_t)length)) {
		relay->told_end_s = relay->end.known_s;
		return;
	}
	if (relay->next_tell_s == 0)
		say("%s/end can't be written: %s", relay->folder.path, strerror(errno));
	relay->next_tell_s = now_s + TELL_AGAIN_S;
}

static void look_for_run(struct relay *relay, double now_s)
{
	char run[PATH_MAX];

	if (relay->end.file.run[0] != '\0' || now_s < relay->next_run_s)
		return;
	relay->next_run_s = now_s + RUN_EVERY_S;
	if (runtime_folder_run(&relay->folder, run, sizeof(run)))
		end_watch_take_run(&relay->end, run);
}

/* False: the plugin has closed it. */
static bool hear_plugin(struct relay *relay)
{
	char bytes[4096];
	ssize_t length = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (length < 0)
		return errno == EINTR || errno == EAGAIN;
	if (ranks_take(&relay->ranks, bytes, (size_t)length) > 0 && !relay->said_senseless) {
		relay->said_senseless = true;
		say("a line on standard input is no \"<local id> <pid>\"");
	}
	return length > 0;
}

static void look(struct relay *relay, double now_s)
{
	look_at_ranks(relay, now_s);
	look_for_run(relay, now_s);
	end_watch_look(&relay->end, now_s, clock_wall_s());
	relay_tell_end(relay, now_s);
	look_at_clock(relay, now_s);
}

void relay_loop(struct relay *relay)
{
	struct pollfd heard[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = relay->signals, .events = POLLIN },
	};
	double next_look_s = 0;

	for (;;) {
		double now_s = clock_monotonic_s();
		double pause_s = seconds_least(seconds_most(next_look_s - now_s, 0), LOOK_EVERY_S);

		if (poll(heard, 2, (int)(pause_s * 1000) + 1) < 0 && errno != EINTR) {
			say("nothing can be waited for: %s", strerror(errno)); /* out of memory: a pause, and again */
			poll(NULL, 0, (int)(LOOK_EVERY_S * 1000));
			heard[0].revents = heard[1].revents = 0;
		}
		now_s = clock_monotonic_s();
		if (heard[1].revents != 0)
			hear_own_signals(relay, now_s);
		if (heard[0].revents != 0 && !hear_plugin(relay))
			return;
		if (now_s >= next_look_s) {
			look(relay, now_s);
			next_look_s = now_s + LOOK_EVERY_S;
		}
	}
}
