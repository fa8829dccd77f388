#ifndef RELAY_LOOP_H
#define RELAY_LOOP_H

#include "arguments.h"
#include "end_watch.h"
#include "ranks.h"
#include "runtime_folder.h"
#include "stop_request.h"

struct relay {
	const struct arguments *arguments;
	struct runtime_folder folder;
	struct ranks ranks;
	struct end_watch end;
	struct stop_request standing; /* what the page says */
	int signals; /* a signalfd */
	double promise_s;
	double offset_s; /* the controller's clock less our monotonic one */
	double start_s; /* of the job, by the controller's clock; where that isn't known, of this relay */
	double told_end_s; /* what the file `end` says; NaN: it isn't there */
	double next_tell_s; /* monotonic */
	double next_run_s;
	bool said_senseless;
	bool said_short;
};

/* Write the end that is known into the runtime folder, where it isn't there yet. */
void relay_tell_end(struct relay *relay, double now_s);

/* Until the plugin closes our standard input: never ended by anything else that can be survived. */
void relay_loop(struct relay *relay);

#endif
