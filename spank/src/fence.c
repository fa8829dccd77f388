#include "fence.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

/* The newest of the folder's names, by `is_one`; false where there is none. errno says whether it could be read. */
static bool newest(const char *folder, bool (*is_one)(const void *, const char *, uint32_t *), const void *argument,
		   uint32_t *number)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	bool found = false;
	uint32_t one;
	int error;

	if (entries == NULL)
		return false;
	errno = 0;
	while ((entry = readdir(entries)) != NULL)
		if (is_one(argument, entry->d_name, &one) && (!found || one > *number)) {
			*number = one;
			found = true;
		}
	error = errno;
	closedir(entries);
	errno = error;
	return found;
}

static bool is_life(const void *life, const char *name, uint32_t *restart)
{
	return life_is_of_same_job(life, name, restart);
}

/* 0007 */
static bool is_attempt(const void *unused, const char *name, uint32_t *number)
{
	(void)unused;
	return text_to_number(name, 0, UINT32_MAX, number);
}

enum fence_word fence_look(const char *run, const struct life *life, const char *attempt, char *sentence, size_t size)
{
	char folder[PATH_MAX];
	uint32_t found, ours;
	int error = 0;

	errno = 0;
	if (!text_join(folder, sizeof(folder), run, "exit-notes"))
		return FENCE_OPEN;
	if (newest(folder, is_life, life, &found) && found > life->restart) {
		snprintf(sentence, size,
			 "job %s with restart count %" PRIu32 " must not start any more: restart %" PRIu32
			 " of it has begun in %s",
			 life->job, life->restart, found, run);
		return FENCE_CLOSED;
	}
	if (errno != 0 && errno != ENOENT)
		error = errno;
	errno = 0;
	if (text_to_number(attempt, 0, UINT32_MAX, &ours) && text_join(folder, sizeof(folder), run, "attempts")) {
		if (newest(folder, is_attempt, NULL, &found) && found > ours) {
			snprintf(sentence, size,
				 "attempt %" PRIu32 " must not start any more: attempt %" PRIu32 " has begun in %s",
				 ours, found, run);
			return FENCE_CLOSED;
		}
		if (errno != 0 && errno != ENOENT)
			error = errno;
	}
	if (error == 0)
		return FENCE_OPEN;
	snprintf(sentence, size, "nobody can tell whether %s has a newer attempt: %s", run, strerror(error));
	return FENCE_UNKNOWN;
}
