/* Bringing a node's exit notes from the spool to RUN/exit-notes/LIFE/NODE.jsonl. */
#ifndef RESILIENCE_SHIPPING_H
#define RESILIENCE_SHIPPING_H

#include <limits.h>
#include <stdbool.h>

#include "user.h"

#define SHIPPING_LIMIT_S 5

struct shipment {
	int spool;	   /* the open folder */
	const char *notes; /* the file's name in it */
	const char *life;
	const char *node;
	const char *run;	  /* empty: look into the file `run` of `relay_folder` */
	const char *relay_folder; /* empty: there is none */
	bool make_run; /* nobody may have made it yet: a short step on one node ends before it begins on another */
	bool remove;   /* both spool files, once it is done */
	const char *run_file; /* beside the notes */
};

enum shipping_end {
	SHIPPED,
	SHIPPING_NOWHERE, /* no run directory is known */
	SHIPPING_NOTHING, /* there are no notes */
	SHIPPING_FAILED,  /* `why` is one sentence */
};

/* Twice is harmless. `run` is where they were brought. */
enum shipping_end ship(const struct shipment *shipment, const struct user *user, char run[PATH_MAX], char *why,
		       size_t size);

#endif
