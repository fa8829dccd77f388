#include "log.h"

#include <stdarg.h>
#include <stdio.h>

#include <slurm/spank.h>

void resilience_log_error(const char *format, ...)
{
	char sentence[8192]; /* two paths and what is said of them */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	slurm_error("slurm-resilience: %s", sentence);
}
