#include "plugstack_args.h"

#include <string.h>

#include "text.h"

#ifndef LIBEXECDIR
#define LIBEXECDIR "/usr/libexec/slurm-resilience"
#endif

/* The part behind NAME=, or NULL where the word is another one. */
static const char *value_of(const char *word, const char *name)
{
	size_t length = strlen(name);

	return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static bool take_path(const char *value, char into[PATH_MAX])
{
	return text_is_absolute_path(value) && text_copy(into, PATH_MAX, value);
}

static bool take_number(const char *value, uint32_t least, uint32_t most, int *into)
{
	uint32_t number;

	if (!text_to_number(value, least, most, &number))
		return false;
	*into = (int)number;
	return true;
}

static bool take_health(const char *value, enum health_mode *into)
{
	if (strcmp(value, "off") == 0)
		*into = HEALTH_OFF;
	else if (strcmp(value, "warn") == 0)
		*into = HEALTH_WARN;
	else if (strcmp(value, "exclude") == 0)
		*into = HEALTH_EXCLUDE;
	else
		return false;
	return true;
}

static bool take_relay(const char *value, char into[PATH_MAX])
{
	if (strcmp(value, "off") != 0)
		return take_path(value, into);
	into[0] = '\0';
	return true;
}

static void take(const char *word, struct plugstack_args *into, plugstack_complain complain)
{
	const char *value, *wanted;
	bool good;

	if ((value = value_of(word, "spool")) != NULL) {
		good = take_path(value, into->spool);
		wanted = "an absolute path";
	} else if ((value = value_of(word, "relay")) != NULL) {
		good = take_relay(value, into->relay);
		wanted = "an absolute path, or off";
	} else if ((value = value_of(word, "runtime")) != NULL) {
		good = take_path(value, into->runtime);
		wanted = "an absolute path";
	} else if ((value = value_of(word, "kill_wait")) != NULL) {
		good = take_number(value, 0, 604800, &into->kill_wait_s);
		wanted = "a number of seconds";
	} else if ((value = value_of(word, "health")) != NULL) {
		good = take_health(value, &into->health);
		wanted = "off, warn or exclude";
	} else if ((value = value_of(word, "health_dir")) != NULL) {
		good = take_path(value, into->health_directory);
		wanted = "an absolute path";
	} else if ((value = value_of(word, "health_timeout")) != NULL) {
		good = take_number(value, 1, 300, &into->health_timeout_s);
		wanted = "a number of seconds from 1 to 300";
	} else if ((value = value_of(word, "notes_keep_days")) != NULL) {
		good = take_number(value, 1, 36500, &into->notes_keep_days);
		wanted = "a number of days from 1 to 36500";
#ifdef FAULTS
	} else if ((value = value_of(word, "fault")) != NULL) {
		good = text_copy(into->fault, sizeof(into->fault), value);
		wanted = "CALLBACK:error or CALLBACK:crash";
#endif
	} else {
		complain("plugstack.conf has the argument \"%.200s\", which is unknown and ignored", word);
		return;
	}
	if (!good)
		complain("plugstack.conf has the argument \"%.200s\", which is ignored: it must be %s", word, wanted);
}

void plugstack_args_parse(int count, char **words, struct plugstack_args *into, plugstack_complain complain)
{
	memset(into, 0, sizeof(*into));
	text_copy(into->spool, sizeof(into->spool), "/var/spool/slurm-resilience");
	text_copy(into->relay, sizeof(into->relay), LIBEXECDIR "/relay");
	text_copy(into->runtime, sizeof(into->runtime), "/dev/shm");
	text_copy(into->health_directory, sizeof(into->health_directory), LIBEXECDIR "/health.d");
	into->health = HEALTH_OFF;
	into->health_timeout_s = 10;
	into->kill_wait_s = 30;
	into->notes_keep_days = 30;
	for (int i = 0; i < count; i++)
		take(words[i], into, complain);
}
