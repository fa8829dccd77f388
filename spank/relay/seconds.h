#ifndef RELAY_SECONDS_H
#define RELAY_SECONDS_H

/* fmin and fmax, without libm. Neither is a NaN. */
static inline double seconds_least(double one, double other)
{
	return one < other ? one : other;
}

static inline double seconds_most(double one, double other)
{
	return one > other ? one : other;
}

#endif
