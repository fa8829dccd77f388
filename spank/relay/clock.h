#ifndef RELAY_CLOCK_H
#define RELAY_CLOCK_H

/* The clock of the stop page: the same one as Python's time.monotonic(). */
double clock_monotonic_s(void);

/* Seconds since the epoch, as this node has it. */
double clock_wall_s(void);

#endif
