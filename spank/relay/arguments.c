#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "arguments.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LONGEST_LIFE 64
#define LONGEST_NAME 255
#define MOST_STEP 0xffffffefUL /* the numbers above are Slurm's own: batch, extern, interactive */
#define MOST_NODE_ID 1048575UL
#define MOST_TASKS 4096UL
#define MOST_SECONDS 604800UL

/* The value of "--name=value"; NULL: it is another word. */
static const char *value_of(const char *word, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(word, name, length) != 0 || word[length] != '=')
		return NULL;
	return word + length + 1;
}

static size_t digits(const char *text)
{
	size_t count = 0;

	while (text[count] >= '0' && text[count] <= '9')
		count++;
	return count;
}

static bool parse_number(const char *text, unsigned long least, unsigned long most, unsigned long *into)
{
	size_t length = digits(text);

	if (length == 0 || length > 10 || text[length] != '\0')
		return false;
	*into = 0;
	for (size_t i = 0; i < length; i++)
		*into = *into * 10 + (unsigned long)(text[i] - '0'); /* ten digits fit */
	return *into >= least && *into <= most;
}

static bool is_absolute_path(const char *text)
{
	if (text[0] != '/' || strlen(text) >= PATH_MAX)
		return false;
	for (; *text != '\0'; text++)
		if (iscntrl((unsigned char)*text))
			return false;
	return true;
}

static bool is_node_name(const char *text)
{
	size_t length = strlen(text);

	for (; *text != '\0'; text++)
		if (!isgraph((unsigned char)*text) || *text == '/')
			return false;
	return length > 0 && length <= LONGEST_NAME;
}

bool arguments_is_life(const char *life)
{
	size_t job = digits(life);
	size_t restart;

	if (job > 0 && life[job] == '_') {
		size_t task = digits(life + job + 1);

		if (task == 0)
			return false;
		job += 1 + task;
	}
	if (job == 0 || life[job] != '-')
		return false;
	restart = digits(life + job + 1);
	return restart > 0 && life[job + 1 + restart] == '\0' && job + 1 + restart <= LONGEST_LIFE;
}

static bool refuse(char *error, size_t size, const char *word, const char *why)
{
	snprintf(error, size, "%.200s: %s", word, why);
	return false;
}

static bool take(const char *word, struct arguments *into, char *error, size_t size)
{
	const char *value;
	unsigned long number = 0;

	if (strcmp(word, "--ask-slurm") == 0) {
		into->ask_slurm = true;
	} else if ((value = value_of(word, "--runtime")) != NULL) {
		if (!is_absolute_path(value))
			return refuse(error, size, word, "must be an absolute path");
		into->parent = value;
	} else if ((value = value_of(word, "--run")) != NULL) {
		if (!is_absolute_path(value))
			return refuse(error, size, word, "must be an absolute path");
		into->run = value;
	} else if ((value = value_of(word, "--job")) != NULL) {
		if (!arguments_is_life(value))
			return refuse(error, size, word, "must be JOB-RESTART or ARRAY_TASK-RESTART");
		into->life = value;
	} else if ((value = value_of(word, "--node")) != NULL) {
		if (!is_node_name(value))
			return refuse(error, size, word, "is no node's name");
		into->node = value;
	} else if ((value = value_of(word, "--step")) != NULL) {
		if (!parse_number(value, 0, MOST_STEP, &number))
			return refuse(error, size, word, "must be the number of a normal step");
		into->step = (unsigned)number;
	} else if ((value = value_of(word, "--node-id")) != NULL) {
		if (!parse_number(value, 0, MOST_NODE_ID, &number))
			return refuse(error, size, word, "must be the node's number in the step");
		into->node_id = (unsigned)number;
	} else if ((value = value_of(word, "--local-tasks")) != NULL) {
		if (!parse_number(value, 1, MOST_TASKS, &number))
			return refuse(error, size, word, "must be a number from 1 to 4096");
		into->local_tasks = (unsigned)number;
	} else if ((value = value_of(word, "--kill-wait")) != NULL) {
		if (!parse_number(value, 0, MOST_SECONDS, &number))
			return refuse(error, size, word, "must be a number of seconds from 0 to 604800");
		into->kill_wait_s = (double)number;
	} else if ((value = value_of(word, "--lead")) != NULL) {
		if (!parse_number(value, 0, MOST_SECONDS, &number))
			return refuse(error, size, word, "must be a number of seconds from 0 to 604800");
		into->lead_s = (double)number;
	} else {
		return refuse(error, size, word, "no such argument");
	}
	return true;
}

bool arguments_parse(int count, char *const *words, struct arguments *into, char *error, size_t error_size)
{
	*into = (struct arguments){ .kill_wait_s = 30.0, .lead_s = -1.0 };
	for (int i = 0; i < count; i++)
		if (!take(words[i], into, error, error_size))
			return false;
	if (into->parent == NULL)
		return refuse(error, error_size, "--runtime", "is missing");
	if (into->life == NULL)
		return refuse(error, error_size, "--job", "is missing");
	if (into->local_tasks == 0)
		return refuse(error, error_size, "--local-tasks", "is missing");
	return true;
}
