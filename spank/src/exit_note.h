/* What is noted of a task that ended: one line of JSON, read by slurm_resilience/triage/exit_notes.py. */
#ifndef RESILIENCE_EXIT_NOTE_H
#define RESILIENCE_EXIT_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "life.h"

#define EXIT_NOTE_MAX 1024

struct exit_note {
	const struct life *life;
	uint32_t step;
	const char *node;
	uint32_t rank;
	pid_t pid;
	int status; /* as wait(2) gives it */
	struct timespec when;
};

/* Pure. The line with its end; its length, or 0 where it doesn't fit. */
size_t exit_note_format(const struct exit_note *note, char *into, size_t size);

/* One write, so that lines of other processes never mix with it. False: errno says why. */
bool exit_note_append(int fd, const char *line, size_t length);

#endif
