#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "squeue.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Variables by which a user changes what squeue prints, and of which cluster. */
static bool is_obeyed(const char *variable)
{
	return strncmp(variable, "SQUEUE_", 7) == 0 || strncmp(variable, "SLURM_CLUSTERS=", 15) == 0;
}

static void forget_what_is_obeyed(void)
{
	char **into = environ;

	for (char **variable = environ; *variable != NULL; variable++)
		if (!is_obeyed(*variable))
			*into++ = *variable;
	*into = NULL;
}

int squeue_ask(const void *job)
{
	char name[64];

	snprintf(name, sizeof(name), "%s", (const char *)job);
	forget_what_is_obeyed();
	setenv("SLURM_TIME_FORMAT", "%s", 1); /* seconds since the epoch; measured on 22.05 and 24.11 */
	setenv("LC_ALL", "C", 1);
	execvp("squeue", (char *[]){ "squeue", "-h", "-j", name, "-o", "%e", NULL });
	return SQUEUE_MISSING;
}
