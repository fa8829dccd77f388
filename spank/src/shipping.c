#include "shipping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "text.h"
#include "user_child.h"
#include "user_files.h"

#define NO_RUN (-1)
#define LOCK_LIMIT_MS 2000
#define LOOK_EVERY_MS 20

struct load {
	const struct shipment *shipment;
	int notes;
};

static int at(struct user_report *report, const char *doing, const char *path, int error)
{
	text_copy(report->doing, sizeof(report->doing), doing);
	text_copy(report->path, sizeof(report->path), path);
	return error;
}

/* The training library may have opened a run directory that nobody named before. */
static bool find_run(const struct shipment *shipment, char run[PATH_MAX])
{
	if (shipment->run[0] != '\0')
		return text_copy(run, PATH_MAX, shipment->run);
	return shipment->relay_folder[0] != '\0' &&
	       user_files_first_line(shipment->relay_folder, "run", run, PATH_MAX) == 0 && text_is_absolute_path(run);
}

/*
 * Two steps may end at once, and the older copy should not win. Whoever may read the notes may lock them, and everybody
 * may read them: so it is not waited for long, and the notes are brought all the same.
 */
static int lock_for_a_while(int notes)
{
	struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};

	for (int i = 0; i < LOCK_LIMIT_MS / LOOK_EVERY_MS; i++) {
		if (flock(notes, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return errno;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int carry(const void *argument, struct user_report *report)
{
	const struct load *load = argument;
	const struct shipment *shipment = load->shipment;
	char folder[PATH_MAX], name[NAME_MAX + 1];
	int error;

	if (!find_run(shipment, report->answer))
		return NO_RUN;
	error = lock_for_a_while(load->notes);
	if (error != 0)
		return at(report, "waiting for", "another step", error);
	error = user_files_make_life(report->answer, shipment->life, shipment->make_run);
	if (error != 0)
		return at(report, "making exit-notes in", report->answer, error);
	snprintf(name, sizeof(name), "%s.jsonl", shipment->node);
	if (snprintf(folder, sizeof(folder), "%s/exit-notes/%s", report->answer, shipment->life) >= (int)sizeof(folder))
		return at(report, "writing into", report->answer, ENAMETOOLONG);
	error = user_files_replace(folder, name, load->notes, NULL);
	return at(report, "writing into", folder, error);
}

static enum shipping_end explain(enum user_child_end end, int error, const struct user_report *report, char *why,
				 size_t size)
{
	if (end == USER_CHILD_LATE)
		snprintf(why, size, "no answer within %d s from %s", SHIPPING_LIMIT_S,
			 report->answer[0] != '\0' ? report->answer : "its file system");
	else
		snprintf(why, size, "%s %s: %s", report->doing, report->path, strerror(error));
	return SHIPPING_FAILED;
}

enum shipping_end ship(const struct shipment *shipment, const struct user *user, char run[PATH_MAX], char *why,
		       size_t size)
{
	static struct user_report report; /* large, and there is one shipment at a time */
	struct load load = {.shipment = shipment};
	enum user_child_end end;
	int error = 0;

	run[0] = '\0';
	if (shipment->run[0] == '\0' && shipment->relay_folder[0] == '\0')
		return SHIPPING_NOWHERE;
	/* A lock of our own: opened here, and not shared with whoever appends. */
	load.notes = openat(shipment->spool, shipment->notes, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (load.notes < 0)
		return errno == ENOENT ? SHIPPING_NOTHING
				       : explain(USER_CHILD_FAILED, errno,
						 &(struct user_report){.doing = "reading the spool"}, why, size);
	end = user_child_run(user, load.notes, carry, &load, SHIPPING_LIMIT_S, &report, &error);
	close(load.notes);
	if (end == USER_CHILD_FAILED && error == NO_RUN)
		return SHIPPING_NOWHERE;
	if (text_is_absolute_path(report.answer)) /* for the next try, too */
		text_copy(run, PATH_MAX, report.answer);
	if (end != USER_CHILD_DONE)
		return explain(end, error, &report, why, size);
	if (shipment->remove) {
		unlinkat(shipment->spool, shipment->notes, 0);
		unlinkat(shipment->spool, shipment->run_file, 0);
	}
	return SHIPPED;
}
