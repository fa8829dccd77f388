/*
 * The health gate: before a job's first task, root runs the site's checks of the node and keeps what they found.
 *
 * It only finds and keeps: telling the user and failing a step is the business of who reads the findings.
 * It never drains a node and never fails a prolog.
 */
#ifndef RESILIENCE_HEALTH_H
#define RESILIENCE_HEALTH_H

#include <stddef.h>
#include <stdint.h>

enum health_mode {
	HEALTH_OFF,
	HEALTH_WARN,	/* findings are told */
	HEALTH_EXCLUDE, /* and the job goes on without this node */
};

struct health_settings {
	enum health_mode mode;
	const char *directory; /* of the checks; root runs them, so only root may be able to change them */
	int timeout_s;	       /* for all checks together */
	const char *spool;
};

struct health_finding {
	char text[256]; /* "NAME: what it said", printable ASCII */
};

/*
 * Runs the checks and keeps their findings for `job_id` in the spool, over older ones of the same job.
 * Comes back within timeout_s and about a second, whatever the checks do; at once where the mode is off.
 */
void health_gate_run(const struct health_settings *settings, uint32_t job_id);

/* The findings kept for the job, at most `max`, and the mode they were found in (HEALTH_OFF where there are none). */
size_t health_findings_read(const char *spool, uint32_t job_id, enum health_mode *mode, struct health_finding *out,
			    size_t max);

void health_findings_forget(const char *spool, uint32_t job_id);

/* Where errors go; whoever links this has it. */
void resilience_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
