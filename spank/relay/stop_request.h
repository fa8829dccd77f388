#ifndef RELAY_STOP_REQUEST_H
#define RELAY_STOP_REQUEST_H

#include <stdbool.h>

/* Why the ranks are asked to stop: the numbers of slurm_resilience/signals/stop_request.py. */
enum stop_reason {
	STOP_NONE = 0,
	STOP_WARNING = 1, /* SIGUSR1 or SIGUSR2 */
	STOP_TERMINATION = 2, /* SIGTERM */
	STOP_TIME_LIMIT = 3, /* the job's end is near */
};

#define STOP_BECAUSE_BYTES 200

struct stop_request {
	enum stop_reason reason;
	char because[STOP_BECAUSE_BYTES + 1];
	double requested_s; /* on the node's monotonic clock */
	double deadline_s; /* the same; infinite: nobody said when */
};

/*
 * Pure, all of these. `promise_s` is what the ranks have after a SIGTERM, `end_s` the end of the job's time on the
 * monotonic clock, infinite where none is known.
 */
double stop_promise_s(double kill_wait_s);
struct stop_request stop_for_signal(int signal, const char *whom, double now_s, double promise_s, double end_s);
struct stop_request stop_for_end(double now_s, double promise_s, double end_s);

/* The first reason stays, the deadline can only come nearer. Whether `standing` is another one now. */
bool stop_merge(struct stop_request *standing, const struct stop_request *coming);

#endif
