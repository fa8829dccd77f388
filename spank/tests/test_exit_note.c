#include <errno.h>

#include "exit_note.h"
#include "scene.h"

static struct exit_note note(struct life *life, const char *node)
{
	life_from(life, 79, NULL, "77", "4");
	return (struct exit_note){.life = life,
				  .step = 2,
				  .node = node,
				  .rank = 3,
				  .pid = 4711,
				  .status = 9,
				  .when = {.tv_sec = 1764500000, .tv_nsec = 500000000}};
}

static void a_note_is_one_line_as_triage_reads_it(void)
{
	struct life life;
	struct exit_note one = note(&life, "n1");
	char line[EXIT_NOTE_MAX];
	const char *wanted = "{\"job\":\"77_4\",\"restart\":0,\"step\":2,\"node\":\"n1\",\"rank\":3,\"pid\":4711,"
			     "\"status\":9,\"time\":1764500000.500000}\n";

	CHECK(exit_note_format(&one, line, sizeof(line)) == strlen(wanted) && strcmp(line, wanted) == 0);
}

static void a_note_that_does_not_fit_is_none(void)
{
	struct life life;
	struct exit_note one = note(&life, "n1");
	char line[EXIT_NOTE_MAX];
	size_t whole = exit_note_format(&one, line, sizeof(line));

	for (size_t size = 1; size <= whole; size++)
		CHECK(exit_note_format(&one, line, size) == 0);
	CHECK(exit_note_format(&one, line, whole + 1) == whole);
}

static void notes_are_appended(void)
{
	int fd = open(in_scene("notes"), O_WRONLY | O_APPEND | O_CREAT, 0644);

	CHECK(exit_note_append(fd, "one\n", 4) && exit_note_append(fd, "two\n", 4));
	close(fd);
	CHECK(strcmp(read_path(in_scene("notes")), "one\ntwo\n") == 0);
}

static void a_full_disk_is_said(void)
{
	int fd = open("/dev/full", O_WRONLY);

	errno = 0;
	CHECK(!exit_note_append(fd, "one\n", 4) && errno == ENOSPC);
	close(fd);
}

int main(void)
{
	RUN(a_note_is_one_line_as_triage_reads_it);
	RUN(a_note_that_does_not_fit_is_none);
	RUN(notes_are_appended);
	RUN(a_full_disk_is_said);
	return 0;
}
