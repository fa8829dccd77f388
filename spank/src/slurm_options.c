#include "slurm_options.h"

#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "log.h"

static struct options options;
static char complaint[512];

/* Slurm tells a callback nothing but the number and the text, so what was typed is kept here. */
static int take(int id, const char *value, int remote)
{
	char sentence[512] = "", absolute[PATH_MAX];
	bool good = options_take(&options, id, value, sentence, sizeof(sentence));

	if (good && !remote && options.run[0] != '\0' && !environment_absolute(options.run, absolute)) {
		snprintf(sentence, sizeof(sentence), "--resilient-run is too long a path from here");
		good = false;
	}
	if (good)
		return ESPANK_SUCCESS;
	if (!remote) { /* the person who typed it can type it again */
		resilience_log_error("%s", sentence);
		return -1;
	}
	/* Here an error would cost a node. It is said once the user's stderr is connected. */
	snprintf(complaint, sizeof(complaint), "%s", sentence);
	return ESPANK_SUCCESS;
}

void slurm_options_register(spank_t spank)
{
	for (const struct option_entry *entry = OPTION_TABLE; entry->name != NULL; entry++) {
		/* Slurm copies neither the option nor its texts. */
		static struct spank_option told[OPTION_END];
		struct spank_option *option = &told[entry->id];

		option->name = (char *)entry->name;
		option->arginfo = (char *)entry->argument;
		option->usage = (char *)entry->usage;
		option->has_arg = entry->has_argument;
		option->val = entry->id;
		option->cb = take;
		if (spank_option_register(spank, option) != ESPANK_SUCCESS)
			resilience_log_error("Slurm doesn't take the option --%s", entry->name);
	}
}

const struct options *slurm_options(void)
{
	static const struct options nothing;

	return complaint[0] == '\0' ? &options : &nothing;
}

const char *slurm_options_complaint(void)
{
	return complaint;
}
