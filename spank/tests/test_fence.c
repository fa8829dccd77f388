#include "fence.h"
#include "scene.h"

static char sentence[2 * PATH_MAX];

static enum fence_word look(const char *restart, const char *attempt)
{
	struct life life;

	life_from(&life, 123, restart, NULL, NULL);
	sentence[0] = '\0';
	return fence_look(in_scene("run"), &life, attempt, sentence, sizeof(sentence));
}

static void make(const char *name)
{
	mkdir(in_scene("run"), 0755);
	mkdir(in_scene("run/exit-notes"), 0755);
	mkdir(in_scene("run/attempts"), 0755);
	CHECK(mkdir(in_scene(name), 0755) == 0);
}

static void a_run_that_nobody_has_begun_is_open(void)
{
	CHECK(look("0", "") == FENCE_OPEN && look("3", "7") == FENCE_OPEN && sentence[0] == '\0');
}

static void a_life_with_a_newer_one_is_refused_and_both_are_named(void)
{
	make("run/exit-notes/123-2");
	make("run/exit-notes/123-0");
	make("run/exit-notes/1234-9");
	make("run/exit-notes/123-9x");
	CHECK(look("1", "") == FENCE_CLOSED);
	CHECK(strstr(sentence, "restart count 1") != NULL && strstr(sentence, "restart 2") != NULL);
	CHECK(look("2", "") == FENCE_OPEN && look("3", "") == FENCE_OPEN);
}

static void an_attempt_with_a_newer_one_is_refused(void)
{
	make("run/attempts/0009");
	make("run/attempts/0010");
	make("run/attempts/0011.tmp");
	CHECK(look(NULL, "9") == FENCE_CLOSED && strstr(sentence, "attempt 9") != NULL);
	CHECK(strstr(sentence, "attempt 10") != NULL);
	CHECK(look(NULL, "10") == FENCE_OPEN && look(NULL, "") == FENCE_OPEN && look(NULL, "junk") == FENCE_OPEN);
}

static void a_folder_that_cannot_be_read_is_said_and_stops_nobody(void)
{
	mkdir(in_scene("run"), 0755);
	write_scene("run/exit-notes", "a file", 0644); /* even root is told so: ENOTDIR */
	CHECK(look("0", "") == FENCE_UNKNOWN && strstr(sentence, "Not a directory") != NULL);
	mkdir(in_scene("run/attempts"), 0755);
	mkdir(in_scene("run/attempts/0003"), 0755);
	CHECK(look("0", "2") == FENCE_CLOSED); /* what can be read counts */
}

int main(void)
{
	RUN(a_run_that_nobody_has_begun_is_open);
	RUN(a_life_with_a_newer_one_is_refused_and_both_are_named);
	RUN(an_attempt_with_a_newer_one_is_refused);
	RUN(a_folder_that_cannot_be_read_is_said_and_stops_nobody);
	return 0;
}
