#include "told.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "user_files.h"

#define FINDINGS_MAX 64
#define FILE_MAX (FINDINGS_MAX * sizeof(struct health_finding) * 2)

bool told_format(const char *node, enum health_mode mode, const struct health_finding *findings, size_t count,
		 char *into, size_t size)
{
	bool fits = text_copy(into, size, "{\"node\":") && text_append_json(into, size, node) &&
		    text_append(into, size, ",\"mode\":") &&
		    text_append_json(into, size, mode == HEALTH_EXCLUDE ? "exclude" : "warn") &&
		    text_append(into, size, ",\"findings\":[");

	for (size_t i = 0; fits && i < count; i++)
		fits = (i == 0 || text_append(into, size, ",")) && text_append_json(into, size, findings[i].text);
	return fits && text_append(into, size, "]}\n");
}

static void write_down(const struct step *step, enum health_mode mode, const struct health_finding *findings,
		       size_t count)
{
	static char text[FILE_MAX];
	char folder[PATH_MAX], name[NAME_MAX + 1];
	int error = ENAMETOOLONG;

	if (told_format(step->node, mode, findings, count, text, sizeof(text)) &&
	    snprintf(folder, sizeof(folder), "%s/exit-notes/%s", step->run, step->life.text) < (int)sizeof(folder) &&
	    snprintf(name, sizeof(name), "%s.health.json", step->node) < (int)sizeof(name))
		error = user_files_make_life(step->run, step->life.text, step->run_is_wanted);
	if (error == 0)
		error = user_files_replace(folder, name, -1, text);
	if (error != 0)
		resilience_log_error("what was found on node %s can't be written into %s: %s", step->node, step->run,
				     strerror(error));
}

bool told(const struct step *step, bool first)
{
	static struct health_finding findings[FINDINGS_MAX]; /* large */
	enum health_mode mode = HEALTH_OFF;
	size_t count = health_findings_read(step->args.spool, step->job_id, &mode, findings, FINDINGS_MAX);
	bool known = step_is_normal(step) && step->run[0] != '\0';

	if (count == 0 || mode == HEALTH_OFF)
		return true;
	if (first) {
		for (size_t i = 0; i < count; i++)
			slurm_spank_log("slurm-resilience: node %s: %s", step->node, findings[i].text);
		if (known)
			write_down(step, mode, findings, count);
	}
	if (mode != HEALTH_EXCLUDE || !known)
		return true;
	if (first)
		resilience_log_error("node %s is not fit for this job: no task starts here", step->node);
	return false;
}
