#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pending.h"

#include <string.h>

/* The Groups line, which comes before those that we want, has 11 bytes for each of the user's groups. */
static char status_text[64 * 1024];

static bool parse_set(const char *status, const char *name, pending_set *set)
{
	size_t length = strlen(name);
	const char *line = status;
	int nibbles = 0;

	while (strncmp(line, name, length) != 0) { /* a name is searched at the start of lines alone */
		line = strchr(line, '\n');
		if (line == NULL)
			return false;
		line++;
	}
	line += length;
	while (*line == '\t' || *line == ' ')
		line++;
	*set = 0;
	for (; nibbles < 16; nibbles++, line++) {
		if (*line >= '0' && *line <= '9')
			*set = *set << 4 | (pending_set)(*line - '0');
		else if (*line >= 'a' && *line <= 'f')
			*set = *set << 4 | (pending_set)(*line - 'a' + 10);
		else
			break;
	}
	return nibbles > 0 && *line == '\n';
}

bool pending_parse(const char *status, pending_set *set)
{
	pending_set of_thread, of_process;

	if (!parse_set(status, "SigPnd:", &of_thread) || !parse_set(status, "ShdPnd:", &of_process))
		return false;
	*set = of_thread | of_process;
	return true;
}

enum process_sight pending_of(pid_t pid, pending_set *set)
{
	enum process_sight sight = process_read(pid, "status", status_text, sizeof(status_text));

	if (sight == PROCESS_SEEN && !pending_parse(status_text, set))
		return PROCESS_HIDDEN;
	return sight;
}
