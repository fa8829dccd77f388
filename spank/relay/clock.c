#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "clock.h"

#include <time.h>

static double read_clock(clockid_t which)
{
	struct timespec now;

	clock_gettime(which, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double clock_monotonic_s(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

double clock_wall_s(void)
{
	return read_clock(CLOCK_REALTIME);
}
