#include "environment.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "text.h"

/* By which Slurm hands an option on; what is no letter or digit in its name is an underscore. */
#define INHERITED "SLURM_SPANK__SLURM_SPANK_OPTION_resilience_"

static bool was_inherited(const char *option, const char *value)
{
	const char *inherited = getenv(option);

	return inherited != NULL && strcmp(inherited, value) == 0;
}

static bool continuation_was_inherited(const struct options *options)
{
	const char *inherited = getenv(INHERITED "resilient");

	if (inherited != NULL && options->continuation == CONTINUE_REQUEUE && options_is_no_argument(inherited))
		return true;
	return was_inherited(INHERITED "resilient", options_continuation(options));
}

static void announce(const char *name, const char *value, bool inherited)
{
	if (setenv(name, value, !inherited) < 0)
		resilience_log_error("%s can't be set", name);
}

bool environment_absolute(const char *typed, char absolute[PATH_MAX])
{
	char here[PATH_MAX];

	if (typed[0] == '/')
		return text_copy(absolute, PATH_MAX, typed);
	return getcwd(here, sizeof(here)) != NULL && text_join(absolute, PATH_MAX, here, typed);
}

void environment_announce(const struct options *options)
{
	char lead[16], run[PATH_MAX];

	announce(ENV_CONTINUE, options_continuation(options),
		 options->continuation == CONTINUE_NOT_SAID || continuation_was_inherited(options));
	if (options->run[0] != '\0' && environment_absolute(options->run, run))
		announce(ENV_RUN_DIR, run, was_inherited(INHERITED "resilient_run", options->run));
	if (options->has_lead) {
		snprintf(lead, sizeof(lead), "%" PRIu32, options->lead_s);
		announce(ENV_STOP_BEFORE_END, lead, was_inherited(INHERITED "resilient_signal_lead", lead));
	}
}
