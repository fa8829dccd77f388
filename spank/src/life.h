/* One life of a job: its number as people write it, and how often it was restarted. */
#ifndef RESILIENCE_LIFE_H
#define RESILIENCE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define LIFE_TEXT_MAX 40

struct life {
	char job[24]; /* "123", or "77_4" for an array element */
	uint32_t restart;
	char text[LIFE_TEXT_MAX]; /* "123-0", "77_4-2" */
};

/*
 * Pure. From the job id and what the environment says (NULL: unset). What is no number counts as unset: it becomes
 * part of names that root writes.
 */
void life_from(struct life *life, uint32_t job_id, const char *restart_count, const char *array_job,
	       const char *array_task);

/* Whether `name` is a life of the same job; `restart` is which one. */
bool life_is_of_same_job(const struct life *life, const char *name, uint32_t *restart);

/* Whether `text` has the form of one. */
bool life_is_well_formed(const char *text);

#endif
