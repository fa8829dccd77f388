#ifndef RELAY_ERRAND_H
#define RELAY_ERRAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * What may hang is done by a child: a controller that is silent, a shared file system that is gone. The loop never
 * waits for it. A child that even SIGKILL doesn't end (it waits for a disk) stays the only one of its errand.
 */
struct errand {
	pid_t pid; /* 0: there is none */
	int fd; /* what it prints */
	bool overdue; /* it was killed: its time was over */
	int code; /* what it left with; -1: killed, or it never ran */
	double until_s; /* monotonic */
	size_t length;
	char output[4096]; /* the first of what it printed, ended by a NUL */
};

enum errand_state {
	ERRAND_NONE,
	ERRAND_RUNS,
	ERRAND_CAME_BACK, /* told once: then there is none */
};

/* In the child, whose standard output is the errand's; returns what the child leaves with. */
typedef int (*errand_work)(const void *argument);

/* False: errno says why. Only where there is none. */
bool errand_start(struct errand *errand, errand_work work, const void *argument, double now_s, double limit_s);
enum errand_state errand_look(struct errand *errand, double now_s);
void errand_end(struct errand *errand);

#endif
