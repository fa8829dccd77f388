#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stop_request.h"

#include <signal.h>
#include <stdio.h>

#include "seconds.h"

#define LAST_WORDS_S 2.0
#define LEAST_S 1.0

double stop_promise_s(double kill_wait_s)
{
	return seconds_most(LEAST_S, kill_wait_s - LAST_WORDS_S);
}

static const char *name_of(int signal)
{
	switch (signal) {
	case SIGTERM:
		return "SIGTERM";
	case SIGUSR1:
		return "SIGUSR1";
	case SIGUSR2:
		return "SIGUSR2";
	default:
		return "a signal";
	}
}

struct stop_request stop_for_signal(int signal, const char *whom, double now_s, double promise_s, double end_s)
{
	struct stop_request request = { .requested_s = now_s };

	snprintf(request.because, sizeof(request.because), "%s came to %s", name_of(signal), whom);
	if (signal == SIGTERM) {
		request.reason = STOP_TERMINATION;
		request.deadline_s = now_s + promise_s;
	} else {
		request.reason = STOP_WARNING;
		request.deadline_s = end_s + promise_s;
	}
	return request;
}

struct stop_request stop_for_end(double now_s, double promise_s, double end_s)
{
	struct stop_request request = {
		.reason = STOP_TIME_LIMIT,
		.requested_s = now_s,
		.deadline_s = end_s + promise_s,
	};

	if (end_s > now_s)
		snprintf(request.because, sizeof(request.because), "the job's time is over in %.0f s", end_s - now_s);
	else
		snprintf(request.because, sizeof(request.because), "the job's time is over");
	return request;
}

bool stop_merge(struct stop_request *standing, const struct stop_request *coming)
{
	if (standing->reason == STOP_NONE) {
		*standing = *coming;
		return true;
	}
	if (coming->deadline_s >= standing->deadline_s)
		return false; /* Slurm sends one and the same SIGTERM two or three times */
	standing->deadline_s = coming->deadline_s;
	return true;
}
