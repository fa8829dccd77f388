#ifndef RELAY_ARGUMENTS_H
#define RELAY_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* What the plugin tells the relay. The strings are the caller's: argv's. */
struct arguments {
	const char *parent; /* of the runtime folder */
	const char *life; /* "123-0", "77_4-2": the job as Slurm's commands name it, and its restart count */
	const char *run; /* the run directory; NULL: not known yet */
	const char *node; /* as Slurm names it; NULL: not told */
	unsigned step;
	unsigned node_id;
	unsigned local_tasks;
	double kill_wait_s;
	double lead_s; /* how long before the end the ranks are asked to stop; negative: nobody said */
	bool ask_slurm;
};

/* False: `error` holds one sentence that names the bad word. Pure. */
bool arguments_parse(int count, char *const *words, struct arguments *into, char *error, size_t error_size);

/* Whether `life` is "JOB-RESTART" or "ARRAY_TASK-RESTART", digits all. */
bool arguments_is_life(const char *life);

#endif
