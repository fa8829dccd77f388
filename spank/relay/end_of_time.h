#ifndef RELAY_END_OF_TIME_H
#define RELAY_END_OF_TIME_H

#include <stdbool.h>
#include <stddef.h>

/* The end of the job's time: what is said of it, and what follows. Pure, all of it. Seconds since the epoch. */

enum end_answer {
	END_NO_ANSWER, /* N/A, Unknown, nothing, or what makes no sense: what was known stays */
	END_UNLIMITED, /* the job may run for ever */
	END_AT,
};

/* A whole number of seconds: what SLURM_JOB_END_TIME holds. */
bool end_parse_epoch(const char *text, double *end_s);

/* What `squeue -h -j JOB -o %e` prints: seconds with SLURM_TIME_FORMAT=%s, else 2026-11-30T08:00:00 in local time. */
enum end_answer end_of_squeue(const char *output, double *end_s);

/* {"end_s": 1764500000.0}; other keys are left alone. */
bool end_of_json(const char *text, double *end_s);
int end_to_json(double end_s, char *into, size_t size);

/*
 * What an answer makes of the end that is known (NaN: none). A job whose limit was lifted while it runs gets a year, as
 * slurmctld gives it: so every node and reader has a number, and one that had none needs none.
 */
double end_after(double known_s, enum end_answer answer, double end_s, double now_s);

/*
 * The controller's clock less our monotonic one. It is read once: somebody may set the clock while the job runs. That
 * ours is behind can be proven in one way alone: the job's start, by the controller's clock, lies in our future.
 * `start_s` is NaN where the start isn't known.
 */
double end_clock_offset_s(double monotonic_s, double wall_s, double start_s);

/*
 * How long before the end the ranks are asked to stop: as asked, where that is less than the job's whole time; where
 * nobody asked (negative) 60 s; never more than a quarter of the whole time otherwise.
 */
double end_lead_s(double asked_s, double whole_s);

#endif
