#ifndef RELAY_END_WATCH_H
#define RELAY_END_WATCH_H

#include <stdbool.h>

#include "arguments.h"
#include "end_file.h"
#include "errand.h"

/*
 * Follows the end of the job's time, which people and Slurm move while the job runs. On the step's first node it asks
 * Slurm once a minute and tells the others by a file in RUN; on the others it reads that file every 5 s. Whoever
 * doesn't answer changes nothing.
 */
struct end_watch {
	double known_s; /* since the epoch; NaN: no limit is known */
	bool asks;
	char job[64];
	struct errand asking;
	double next_ask_s; /* monotonic, as all that follows */
	struct end_file file;
	struct errand carrying; /* the file, to RUN or from it */
	double next_carry_s;
	double carried_s; /* what RUN is known to hold; NaN: nothing */
	char ask_complaint[160]; /* said last: it isn't said again before it changes */
	char carry_complaint[1200];
};

void end_watch_open(struct end_watch *watch, const struct arguments *arguments, double known_s, mode_t user_umask);

/* Never waits. Whether the end is another one now. */
bool end_watch_look(struct end_watch *watch, double now_s, double wall_s);
void end_watch_close(struct end_watch *watch);

/* The run directory is known now. */
void end_watch_take_run(struct end_watch *watch, const char *run);

#endif
