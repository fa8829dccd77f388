#include "options.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

#define LONGEST_LEAD_S 604800

const struct option_entry OPTION_TABLE[] = {
    {OPTION_RESILIENT, "resilient", "requeue|chain|off",
     "go on after preemption, time limit and failures: requeue the job (default), or chain jobs", 2},
    {OPTION_RUN, "resilient-run", "DIR", "run directory, on storage that all nodes share; implies --resilient", 1},
    {OPTION_LEAD, "resilient-signal-lead", "SECONDS",
     "stop and save this long before the end of the job's time; implies --resilient", 1},
    {OPTION_END, NULL, NULL, NULL, 0},
};

/* Slurm doesn't tell --resilient from --resilient=, and prints the missing argument into the environment of the job. */
bool options_is_no_argument(const char *value)
{
	return value == NULL || *value == '\0' || strcmp(value, "(null)") == 0;
}

static bool take_continuation(struct options *options, const char *value, char *sentence, size_t size)
{
	if (options_is_no_argument(value) || strcmp(value, "requeue") == 0)
		options->continuation = CONTINUE_REQUEUE;
	else if (strcmp(value, "chain") == 0)
		options->continuation = CONTINUE_CHAIN;
	else if (strcmp(value, "off") == 0)
		options->continuation = CONTINUE_OFF;
	else {
		snprintf(sentence, size, "--resilient must be requeue, chain or off, and is \"%.200s\"", value);
		return false;
	}
	return true;
}

static bool take_run(struct options *options, const char *value, char *sentence, size_t size)
{
	if (value == NULL || *value == '\0')
		snprintf(sentence, size, "--resilient-run must name a folder, and is empty");
	else if (strlen(value) >= sizeof(options->run))
		snprintf(sentence, size, "--resilient-run must be shorter than %zu bytes, and has %zu",
			 sizeof(options->run), strlen(value));
	else if (!text_is_path(value))
		snprintf(sentence, size, "--resilient-run must not hold control characters");
	else
		return text_copy(options->run, sizeof(options->run), value);
	return false;
}

static bool take_lead(struct options *options, const char *value, char *sentence, size_t size)
{
	if (!text_to_number(value, 0, LONGEST_LEAD_S, &options->lead_s)) {
		snprintf(sentence, size,
			 "--resilient-signal-lead must be a whole number of seconds from 0 to %d, and is \"%.200s\"",
			 LONGEST_LEAD_S, value == NULL ? "" : value);
		return false;
	}
	options->has_lead = true;
	return true;
}

bool options_take(struct options *options, int id, const char *value, char *sentence, size_t size)
{
	switch (id) {
	case OPTION_RESILIENT:
		return take_continuation(options, value, sentence, size);
	case OPTION_RUN:
		return take_run(options, value, sentence, size);
	case OPTION_LEAD:
		return take_lead(options, value, sentence, size);
	default:
		snprintf(sentence, size, "Slurm names an option that is none of ours (%d)", id);
		return false;
	}
}

bool options_in_force(const struct options *options)
{
	if (options->continuation == CONTINUE_NOT_SAID)
		return options->run[0] != '\0' || options->has_lead;
	return options->continuation != CONTINUE_OFF;
}

const char *options_continuation(const struct options *options)
{
	return options->continuation == CONTINUE_CHAIN ? "chain" : "requeue";
}
