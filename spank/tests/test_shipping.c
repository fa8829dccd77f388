#include <sys/file.h>

#include "scene.h"
#include "shipping.h"
#include "spool.h"

#define NOTES "79.79-0.0.jsonl"
#define RUN_FILE "79.79-0.0.run"
#define ARRIVED "run/exit-notes/79-0/n1.jsonl"

static int spool;
static char run[PATH_MAX], why[PATH_MAX + 256];

static void open_spool(const char *notes)
{
	spool = spool_open(in_scene("spool"), true);
	CHECK(spool >= 0);
	if (notes != NULL)
		write_scene("spool/" NOTES, notes, 0644);
}

static enum shipping_end bring(const char *to, const char *relay_folder, bool remove)
{
	struct shipment shipment = {.spool = spool,
				    .notes = NOTES,
				    .life = "79-0",
				    .node = "n1",
				    .run = to,
				    .relay_folder = relay_folder,
				    .remove = remove,
				    .run_file = RUN_FILE};
	struct user user = {.uid = getuid(), .gid = getgid()};

	return ship(&shipment, &user, run, why, sizeof(why));
}

static void notes_arrive_whole_and_twice_is_harmless(void)
{
	open_spool("one\n");
	CHECK(mkdir(in_scene("run"), 0755) == 0);
	CHECK(bring(in_scene("run"), "", false) == SHIPPED);
	CHECK(strcmp(read_path(in_scene(ARRIVED)), "one\n") == 0);
	write_scene("spool/" NOTES, "one\ntwo\n", 0644);
	CHECK(bring(in_scene("run"), "", false) == SHIPPED && bring(in_scene("run"), "", false) == SHIPPED);
	CHECK(strcmp(read_path(in_scene(ARRIVED)), "one\ntwo\n") == 0);
	CHECK(!exists(in_scene("run/exit-notes/79-0/.n1.jsonl.tmp")));
	close(spool);
}

static void what_has_arrived_is_removed_only_where_that_is_asked(void)
{
	open_spool("one\n");
	write_scene("spool/" RUN_FILE, "x", 0644);
	CHECK(bring(in_scene("run"), "", true) == SHIPPING_FAILED); /* nobody has made the run directory */
	CHECK(strstr(why, "making exit-notes in") != NULL && strstr(why, "No such file") != NULL);
	CHECK(exists(in_scene("spool/" NOTES)) && exists(in_scene("spool/" RUN_FILE)) && !exists(in_scene("run")));
	CHECK(mkdir(in_scene("run"), 0755) == 0);
	CHECK(bring(in_scene("run"), "", false) == SHIPPED && exists(in_scene("spool/" NOTES)));
	CHECK(bring(in_scene("run"), "", true) == SHIPPED);
	CHECK(!exists(in_scene("spool/" NOTES)) && !exists(in_scene("spool/" RUN_FILE)));
	CHECK(bring(in_scene("run"), "", true) == SHIPPING_NOTHING);
	close(spool);
}

static void the_training_may_say_where_its_run_is(void)
{
	char line[PATH_MAX + 1];

	open_spool("one\n");
	CHECK(mkdir(in_scene("run"), 0755) == 0 && mkdir(in_scene("relay"), 0755) == 0);
	CHECK(bring("", in_scene("relay"), false) == SHIPPING_NOWHERE && bring("", "", false) == SHIPPING_NOWHERE);
	write_scene("relay/run", "not/absolute\n", 0644);
	CHECK(bring("", in_scene("relay"), false) == SHIPPING_NOWHERE);
	snprintf(line, sizeof(line), "%s\n", in_scene("run"));
	write_scene("relay/run", line, 0644);
	CHECK(bring("", in_scene("relay"), false) == SHIPPED && strcmp(run, in_scene("run")) == 0);
	CHECK(strcmp(read_path(in_scene(ARRIVED)), "one\n") == 0);
	close(spool);
}

/* Everybody may read the notes, so everybody may lock them. */
static void one_waits_for_another_and_not_for_ever(void)
{
	int held;

	open_spool("one\n");
	CHECK(mkdir(in_scene("run"), 0755) == 0);
	held = open(in_scene("spool/" NOTES), O_RDONLY);
	CHECK(flock(held, LOCK_EX) == 0);
	CHECK(bring(in_scene("run"), "", false) == SHIPPED);
	CHECK(strcmp(read_path(in_scene(ARRIVED)), "one\n") == 0);
	close(held);
	CHECK(bring(in_scene("run"), "", true) == SHIPPED);
	close(spool);
}

static void a_place_that_hangs_is_given_up_and_named(void)
{
	open_spool("one\n");
	CHECK(mkdir(in_scene("run"), 0755) == 0 && mkdir(in_scene("run/exit-notes"), 0755) == 0);
	CHECK(mkdir(in_scene("run/exit-notes/79-0"), 0755) == 0);
	CHECK(mkfifo(in_scene("run/exit-notes/79-0/.n1.jsonl.tmp"), 0644) == 0); /* nobody ever reads it */
	CHECK(bring(in_scene("run"), "", true) == SHIPPING_FAILED);
	CHECK(strstr(why, "no answer within 5 s") != NULL && strstr(why, in_scene("run")) != NULL);
	CHECK(exists(in_scene("spool/" NOTES)));
	close(spool);
}

static void a_place_that_takes_nothing_is_named(void)
{
	open_spool("one\n");
	CHECK(mkdir(in_scene("run"), 0755) == 0);
	write_scene("run/exit-notes", "a file", 0644);
	CHECK(bring(in_scene("run"), "", true) == SHIPPING_FAILED);
	CHECK(strstr(why, in_scene("run")) != NULL && exists(in_scene("spool/" NOTES)));
	close(spool);
}

static void root_s_right_is_not_used_in_a_user_s_folder(void)
{
	struct shipment shipment = {
	    .notes = NOTES, .life = "79-0", .node = "n1", .relay_folder = "", .run_file = RUN_FILE};
	struct user nobody = {.uid = 65534, .gid = 65534};

	if (getuid() != 0)
		return;
	open_spool("one\n");
	CHECK(mkdir(in_scene("run"), 0700) == 0);
	shipment.spool = spool;
	shipment.run = in_scene("run");
	CHECK(ship(&shipment, &nobody, run, why, sizeof(why)) == SHIPPING_FAILED);
	CHECK(strstr(why, "Permission denied") != NULL && !exists(in_scene("run/exit-notes")));
	CHECK(chown(in_scene("run"), 65534, 65534) == 0);
	CHECK(ship(&shipment, &nobody, run, why, sizeof(why)) == SHIPPED);
	close(spool);
}

int main(void)
{
	RUN(notes_arrive_whole_and_twice_is_harmless);
	RUN(what_has_arrived_is_removed_only_where_that_is_asked);
	RUN(the_training_may_say_where_its_run_is);
	RUN(one_waits_for_another_and_not_for_ever);
	RUN(a_place_that_hangs_is_given_up_and_named);
	RUN(a_place_that_takes_nothing_is_named);
	RUN(root_s_right_is_not_used_in_a_user_s_folder);
	return 0;
}
