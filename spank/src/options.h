/* --resilient, --resilient-run and --resilient-signal-lead: what was asked for. */
#ifndef RESILIENCE_OPTIONS_H
#define RESILIENCE_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum continuation {
	CONTINUE_NOT_SAID,
	CONTINUE_REQUEUE,
	CONTINUE_CHAIN,
	CONTINUE_OFF,
};

struct options {
	enum continuation continuation;
	char run[PATH_MAX]; /* as it was typed; empty: not said */
	bool has_lead;
	uint32_t lead_s;
};

enum option_id { OPTION_RESILIENT = 1, OPTION_RUN, OPTION_LEAD, OPTION_END };

struct option_entry {
	enum option_id id;
	const char *name;
	const char *argument;
	const char *usage;
	int has_argument; /* as for getopt_long: 1 always, 2 where one wants */
};

/* Ends with one without a name. */
extern const struct option_entry OPTION_TABLE[];

/* Pure. False: `sentence` says what is wrong with the value, and `options` is as it was. */
bool options_take(struct options *options, int id, const char *value, char *sentence, size_t size);

/* Whether anything is to be done at all. */
bool options_in_force(const struct options *options);

/* Pure. What Slurm makes of an optional argument that was left out: it differs from place to place. */
bool options_is_no_argument(const char *value);

/* "requeue" or "chain", of options in force. */
const char *options_continuation(const struct options *options);

#endif
