#include "fault.h"

#ifdef FAULTS
#include <signal.h>
#include <string.h>

#include "log.h"

bool fault_at(const struct plugstack_args *args, const char *callback)
{
	size_t length = strlen(callback);

	if (strncmp(args->fault, callback, length) != 0 || args->fault[length] != ':')
		return false;
	resilience_log_error("fault injected: %s", args->fault);
	if (strcmp(args->fault + length, ":crash") == 0) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	return strcmp(args->fault + length, ":error") == 0;
}
#endif
