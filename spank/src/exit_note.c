#include "exit_note.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

size_t exit_note_format(const struct exit_note *note, char *into, size_t size)
{
	char middle[96], end[160];

	snprintf(middle, sizeof(middle), ",\"restart\":%" PRIu32 ",\"step\":%" PRIu32 ",\"node\":", note->life->restart,
		 note->step);
	snprintf(end, sizeof(end), ",\"rank\":%" PRIu32 ",\"pid\":%ld,\"status\":%d,\"time\":%lld.%06ld}\n", note->rank,
		 (long)note->pid, note->status, (long long)note->when.tv_sec, note->when.tv_nsec / 1000);
	if (!text_copy(into, size, "{\"job\":") || !text_append_json(into, size, note->life->job) ||
	    !text_append(into, size, middle) || !text_append_json(into, size, note->node) ||
	    !text_append(into, size, end))
		return 0;
	return strlen(into);
}

bool exit_note_append(int fd, const char *line, size_t length)
{
	ssize_t written;

	do
		written = write(fd, line, length);
	while (written < 0 && errno == EINTR);
	if (written == (ssize_t)length)
		return true;
	if (written >= 0) {
		/* The disk is full. Half a line must not swallow the next one. */
		if (write(fd, "\n", 1) < 0)
			return false;
		errno = ENOSPC;
	}
	return false;
}
