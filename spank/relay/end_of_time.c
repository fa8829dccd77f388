#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "end_of_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "seconds.h"

#define LATEST_S 1e12 /* beyond that it is no time */
#define UNLIMITED_S (365.0 * 24 * 3600)
#define UNMEASURED_LEAD_S 60.0

static bool is_time(double seconds)
{
	return isfinite(seconds) && seconds > 0 && seconds < LATEST_S;
}

static const char *behind_blanks(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

static bool is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

bool end_parse_epoch(const char *text, double *end_s)
{
	char *behind;

	if (!is_digit(text[0]))
		return false;
	*end_s = (double)strtoull(text, &behind, 10);
	return *behind_blanks(behind) == '\0' && is_time(*end_s);
}

static bool parse_local_time(const char *text, double *end_s)
{
	struct tm parts = { .tm_isdst = -1 };
	time_t seconds;
	int used = 0;

	if (strlen(text) != 19 || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon,
					 &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used) != 6)
		return false;
	if (used != 19 || parts.tm_mon < 1 || parts.tm_mon > 12 || parts.tm_mday < 1 || parts.tm_mday > 31 ||
	    parts.tm_hour < 0 || parts.tm_min < 0 || parts.tm_sec < 0 || parts.tm_year < 1970)
		return false;
	parts.tm_year -= 1900;
	parts.tm_mon -= 1;
	seconds = mktime(&parts);
	*end_s = (double)seconds;
	return seconds != (time_t)-1 && is_time(*end_s);
}

static enum end_answer of_line(const char *line, double *end_s)
{
	if (strcmp(line, "NONE") == 0)
		return END_UNLIMITED;
	if (end_parse_epoch(line, end_s) || parse_local_time(line, end_s))
		return END_AT;
	return END_NO_ANSWER;
}

enum end_answer end_of_squeue(const char *output, double *end_s)
{
	enum end_answer answer = END_NO_ANSWER;

	while (*output != '\0' && answer == END_NO_ANSWER) {
		const char *begin = output + strspn(output, " \t\r");
		size_t length = strcspn(begin, "\n");
		char line[64];

		output = begin + length + (begin[length] == '\n');
		while (length > 0 && strchr(" \t\r", begin[length - 1]) != NULL)
			length--;
		if (length == 0 || length >= sizeof(line))
			continue;
		memcpy(line, begin, length);
		line[length] = '\0';
		answer = of_line(line, end_s);
	}
	return answer;
}

bool end_of_json(const char *text, double *end_s)
{
	static const char key[] = "\"end_s\"";
	const char *at;
	char *behind;

	text = behind_blanks(text);
	at = strstr(text, key);
	if (*text != '{' || at == NULL)
		return false;
	at = behind_blanks(at + sizeof(key) - 1);
	if (*at != ':')
		return false;
	at = behind_blanks(at + 1);
	if (!is_digit(*at)) /* neither what strtod knows besides numbers, nor what lies before the epoch */
		return false;
	*end_s = strtod(at, &behind);
	at = behind_blanks(behind);
	return (*at == ',' || *at == '}') && is_time(*end_s);
}

int end_to_json(double end_s, char *into, size_t size)
{
	return snprintf(into, size, "{\"end_s\": %.1f}\n", end_s);
}

double end_after(double known_s, enum end_answer answer, double end_s, double now_s)
{
	switch (answer) {
	case END_AT:
		return end_s;
	case END_UNLIMITED:
		/* Not true of NaN; and a year that is told once is told for half a year. */
		return known_s < now_s + UNLIMITED_S / 2 ? (double)(long long)(now_s + UNLIMITED_S) : known_s;
	case END_NO_ANSWER:
		break;
	}
	return known_s;
}

double end_clock_offset_s(double monotonic_s, double wall_s, double start_s)
{
	double lag_s = isnan(start_s) ? 0.0 : seconds_most(0.0, start_s - wall_s);

	return wall_s - monotonic_s + lag_s;
}

double end_lead_s(double asked_s, double whole_s)
{
	if (asked_s >= 0 && asked_s < whole_s)
		return asked_s;
	return seconds_most(0.0, seconds_least(asked_s < 0 ? UNMEASURED_LEAD_S : asked_s, whole_s / 4));
}
