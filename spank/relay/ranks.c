#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ranks.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

bool ranks_open(struct ranks *ranks, unsigned count)
{
	*ranks = (struct ranks){ .count = count };
	ranks->of = calloc(count, sizeof(*ranks->of));
	return ranks->of != NULL;
}

void ranks_close(struct ranks *ranks)
{
	free(ranks->of);
	ranks->of = NULL;
}

static const char *parse_number(const char *text, unsigned long most, unsigned long *number)
{
	const char *at = text;

	for (*number = 0; *at >= '0' && *at <= '9'; at++) {
		*number = *number * 10 + (unsigned long)(*at - '0');
		if (*number > most)
			return NULL;
	}
	return at == text ? NULL : at;
}

bool ranks_parse_line(const char *line, unsigned count, unsigned *local_id, pid_t *pid)
{
	unsigned long number;

	line = parse_number(line, count - 1UL, &number);
	if (line == NULL || *line != ' ')
		return false;
	*local_id = (unsigned)number;
	line = parse_number(line + 1, INT_MAX, &number);
	if (line == NULL || *line != '\0' || number < 2)
		return false;
	*pid = (pid_t)number;
	return true;
}

static bool take_line(struct ranks *ranks)
{
	unsigned local_id = 0;
	pid_t pid = 0;
	struct rank *rank;

	if (!ranks_parse_line(ranks->line, ranks->count, &local_id, &pid))
		return false;
	rank = &ranks->of[local_id];
	*rank = (struct rank){ .pid = pid };
	if (process_started(pid, &rank->started) == PROCESS_GONE)
		rank->pid = 0;
	return true;
}

unsigned ranks_take(struct ranks *ranks, const char *bytes, size_t length)
{
	unsigned senseless = 0;

	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != '\n') {
			if (ranks->line_length < sizeof(ranks->line) - 1)
				ranks->line[ranks->line_length++] = bytes[i];
			else
				ranks->line_too_long = true;
			continue;
		}
		ranks->line[ranks->line_length] = '\0';
		if (ranks->line_too_long || !take_line(ranks))
			senseless++;
		ranks->line_length = 0;
		ranks->line_too_long = false;
	}
	return senseless;
}

static int signal_among(pending_set set)
{
	static const int wanted[] = { SIGTERM, SIGUSR1, SIGUSR2 };

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (pending_has(set, wanted[i]))
			return wanted[i];
	return 0;
}

/* One of the signals that came to it; 0: none. */
static int look_at(struct rank *rank)
{
	unsigned long long started = 0;
	pending_set set = 0;
	enum process_sight sight;
	int signal;

	if (rank->started == 0) { /* hidden when we were told of it; before exec it may still be root's */
		sight = process_started(rank->pid, &rank->started);
		if (sight == PROCESS_GONE)
			rank->pid = 0;
		if (sight != PROCESS_SEEN)
			return 0;
	}
	sight = pending_of(rank->pid, &set);
	if (sight == PROCESS_GONE)
		rank->pid = 0;
	if (sight != PROCESS_SEEN)
		return 0;
	signal = signal_among(set);
	if (signal == 0)
		return 0;
	/* Asked after the look at its signals: who has this start now had the number then. */
	sight = process_started(rank->pid, &started);
	if (sight == PROCESS_HIDDEN)
		return 0;
	if (sight == PROCESS_GONE || started != rank->started) {
		rank->pid = 0;
		return 0;
	}
	return signal;
}

struct ranks_found ranks_look(struct ranks *ranks)
{
	struct ranks_found found = { 0 };

	for (unsigned i = 0; i < ranks->count; i++) {
		struct rank *rank = &ranks->of[i];
		int signal = rank->pid == 0 ? 0 : look_at(rank);

		if (signal != 0 && (found.pid == 0 || (signal == SIGTERM && found.signal != SIGTERM)))
			found = (struct ranks_found){ .pid = rank->pid, .signal = signal };
	}
	return found;
}
