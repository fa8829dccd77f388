#ifndef RELAY_IDENTITY_H
#define RELAY_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Who a process is, beyond its number: slurm_resilience/process_identity.py, of which this is the same in C. */
struct identity {
	char host[256];
	char boot_id[64];
	long long pid;
	unsigned long long started_ticks;
	unsigned long long pid_namespace; /* 0: not recorded */
};

/* Whether the process still lives; only what this machine can know counts as gone. */
enum identity_liveness { IDENTITY_ALIVE, IDENTITY_GONE, IDENTITY_UNKNOWN };

/* False: /proc doesn't know this very process; errno says why. */
bool identity_of_this_process(struct identity *identity);

/* Pure. What can't be read with certainty is refused. */
bool identity_from_json(const char *text, struct identity *identity);
int identity_to_json(const struct identity *identity, char *into, size_t size);

/* `here` is this process: it knows the host, the boot and the namespace. */
enum identity_liveness identity_liveness(const struct identity *identity, const struct identity *here);

#endif
