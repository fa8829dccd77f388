#ifndef RELAY_END_FILE_H
#define RELAY_END_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * RUN/exit-notes/LIFE/end.json, by which the relay of the step's first node tells those of the others when the job's
 * time is over. It lies on shared storage: only errands touch it.
 */
struct end_file {
	char run[PATH_MAX]; /* empty: not known yet */
	const char *life;
	unsigned step;
	mode_t user_umask; /* others may be meant to read what lies in RUN */
	double end_s; /* to be written */
	char stamp[128]; /* of the file that was read last: one that is the same isn't read again */
};

enum end_file_code {
	END_FILE_DONE = 0,
	END_FILE_FAILED = 1, /* it printed why */
	END_FILE_SAME = 3, /* nothing new */
	END_FILE_ABSENT = 4, /* there is no file yet, or no RUN */
};

/* Errands' works. The reader prints the stamp in a line of its own, then the file. */
int end_file_write(const void *file);
int end_file_read(const void *file);

/* Take the stamp out of what the reader printed; returns the rest. */
const char *end_file_take(struct end_file *file, const char *printed);

#endif
