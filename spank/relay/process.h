#ifndef RELAY_PROCESS_H
#define RELAY_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum process_sight {
	PROCESS_SEEN,
	PROCESS_GONE, /* there is none with this number */
	PROCESS_HIDDEN, /* it may be there: /proc doesn't tell us (hidepid, no memory, no descriptors) */
};

/*
 * Field 22 of /proc/PID/stat: the start in clock ticks after boot. It tells a process from a later one with its number.
 * 0: the text is none, or the process is dead and only waits to be reaped. Pure.
 */
unsigned long long process_parse_started(const char *stat);

/* The same of a process, which counts as gone when it is dead, if unreaped. */
enum process_sight process_started(pid_t pid, unsigned long long *ticks);

/* Read /proc/PID/NAME, at most size - 1 bytes of it, and end it by a NUL. */
enum process_sight process_read(pid_t pid, const char *name, char *into, size_t size);

#endif
