/* Faults at will, for tests: the plugstack argument fault=CALLBACK:error|crash. Not in what is installed. */
#ifndef RESILIENCE_FAULT_H
#define RESILIENCE_FAULT_H

#include "plugstack_args.h"

#ifdef FAULTS
#define HAS_FAULTS 1
/* True: the callback is to fail. It may not come back. */
bool fault_at(const struct plugstack_args *args, const char *callback);
#else
#define HAS_FAULTS 0
static inline bool fault_at(const struct plugstack_args *args, const char *callback)
{
	(void)args;
	(void)callback;
	return false;
}
#endif

#endif
