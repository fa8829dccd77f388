#include "notes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exit_note.h"
#include "log.h"
#include "shipping.h"
#include "spool.h"

static void name_of(const struct step *step, const char *suffix, char into[SPOOL_NAME_MAX])
{
	spool_name(into, step->job_id, step->life.text, step->user.uid, suffix);
}

static bool append(const struct step *step, int spool, const char *line, size_t length)
{
	char name[SPOOL_NAME_MAX];
	bool done;
	int fd, error;

	name_of(step, ".jsonl", name);
	fd = spool_open_notes(spool, name);
	if (fd < 0)
		return false;
	done = exit_note_append(fd, line, length);
	error = errno;
	close(fd);
	errno = error;
	return done;
}

static bool remember(const struct step *step, int spool, const char *run)
{
	char name[SPOOL_NAME_MAX];

	name_of(step, ".run", name);
	return run[0] == '\0' || spool_remember_run(spool, name, run, &step->user);
}

void notes_add(const struct step *step, uint32_t rank, pid_t pid, int status)
{
	static bool complained, remembered;
	struct exit_note note = {
	    .life = &step->life, .step = step->id, .node = step->node, .rank = rank, .pid = pid, .status = status};
	char line[EXIT_NOTE_MAX];
	size_t length;
	int spool;

	clock_gettime(CLOCK_REALTIME, &note.when);
	length = exit_note_format(&note, line, sizeof(line));
	spool = spool_open(step->args.spool, true);
	if (spool < 0 || !append(step, spool, line, length)) {
		if (!complained)
			resilience_log_error("no exit note is written into %s: %s", step->args.spool, strerror(errno));
		complained = true;
	}
	if (spool < 0)
		return;
	if (!remembered && !remember(step, spool, step->run))
		resilience_log_error("%s doesn't take down where exit notes are to go: %s", step->args.spool,
				     strerror(errno));
	remembered = true;
	close(spool);
}

void notes_ship(const struct step *step, const char *relay_folder)
{
	char notes[SPOOL_NAME_MAX], run_file[SPOOL_NAME_MAX], run[PATH_MAX], why[PATH_MAX + 256];
	struct shipment shipment = {.notes = notes,
				    .life = step->life.text,
				    .node = step->node,
				    .run = step->run,
				    .relay_folder = relay_folder,
				    .make_run = step->run_is_wanted,
				    .run_file = run_file};

	shipment.spool = spool_open(step->args.spool, false);
	if (shipment.spool < 0)
		return; /* said when the note could not be written */
	name_of(step, ".jsonl", notes);
	name_of(step, ".run", run_file);
	if (ship(&shipment, &step->user, run, why, sizeof(why)) == SHIPPING_FAILED)
		resilience_log_error("the exit notes of step %s.%u on node %s stay in %s for now: %s", step->life.job,
				     (unsigned)step->id, step->node, step->args.spool, why);
	if (step->run[0] == '\0' && run[0] != '\0')
		remember(step, shipment.spool, run); /* the training library named it */
	close(shipment.spool);
}
