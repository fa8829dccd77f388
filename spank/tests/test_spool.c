#include <errno.h>
#include <sys/time.h>
#include <time.h>

#include "scene.h"
#include "spool.h"

static void the_node_s_name_takes_its_place(void)
{
	char path[32];

	CHECK(spool_expand("/s/%n/x%", "n1", path, sizeof(path)) && strcmp(path, "/s/n1/x%") == 0);
	CHECK(spool_expand("/s", "n1", path, sizeof(path)) && strcmp(path, "/s") == 0);
	CHECK(!spool_expand("/%n%n%n%n", "longnode1", path, sizeof(path)));
}

static void names_are_read_as_they_are_written(void)
{
	struct spool_name name;
	char text[SPOOL_NAME_MAX];

	spool_name(text, 79, "77_4-2", 1000, ".jsonl");
	CHECK(strcmp(text, "79.77_4-2.1000.jsonl") == 0);
	CHECK(spool_name_parse(text, ".jsonl", &name) && name.job_id == 79 && name.uid == 1000);
	CHECK(strcmp(name.life, "77_4-2") == 0 && !spool_name_parse(text, ".run", &name));
}

static void other_files_are_none_of_ours(void)
{
	static const char *const OTHER[] = {".jsonl",
					    "79.jsonl",
					    "79.77-0.jsonl",
					    "x.77-0.1.jsonl",
					    "79.../x.1.jsonl",
					    "79.77-0.-1.jsonl",
					    "79.77-0.4294967295.jsonl",
					    "79.77-0.1.2.jsonl",
					    "README"};
	struct spool_name name;

	for (size_t i = 0; i < sizeof(OTHER) / sizeof(OTHER[0]); i++)
		CHECK(!spool_name_parse(OTHER[i], ".jsonl", &name));
}

static void the_folder_is_made_but_not_its_parents(void)
{
	struct stat found;
	int folder;

	umask(077);
	folder = spool_open(in_scene("spool"), true);
	umask(022);
	CHECK(folder >= 0 && fstat(folder, &found) == 0 && (found.st_mode & 07777) == 0755);
	close(folder);
	CHECK(spool_open(in_scene("none"), false) < 0 && errno == ENOENT);
	CHECK(spool_open(in_scene("none/spool"), true) < 0 && errno == ENOENT);
}

static void a_folder_that_others_can_write_to_is_no_spool(void)
{
	mkdir(in_scene("spool"), 0755);
	CHECK(chmod(in_scene("spool"), 01777) == 0);
	CHECK(spool_open(in_scene("spool"), true) < 0 && errno == EPERM);
}

static void notes_are_not_written_through_a_link(void)
{
	int folder = spool_open(in_scene("spool"), true);

	CHECK(symlink(in_scene("elsewhere"), in_scene("spool/a")) == 0);
	CHECK(spool_open_notes(folder, "a") < 0 && errno == ELOOP && !exists(in_scene("elsewhere")));
	close(folder);
}

static void where_notes_go_is_remembered_with_the_user_s_groups(void)
{
	gid_t groups[] = {5, 6, 4294967294U};
	struct user user = {.uid = 1, .gid = 4, .groups = groups, .group_count = 3};
	int folder = spool_open(in_scene("spool"), true);
	struct spool_run run;

	CHECK(spool_remember_run(folder, "a.run", "/r/a b", &user));
	CHECK(strcmp(read_path(in_scene("spool/a.run")), "/r/a b\ngroups 4 5 6 4294967294\n") == 0);
	CHECK(spool_recall_run(folder, "a.run", &run) && strcmp(run.run, "/r/a b") == 0);
	CHECK(run.gid == 4 && run.group_count == 3 && run.groups[2] == 4294967294U);
	free(run.groups);
	user.group_count = 0;
	CHECK(spool_remember_run(folder, "a.run", "/r", &user) && spool_recall_run(folder, "a.run", &run));
	CHECK(run.gid == 4 && run.group_count == 0 && run.groups == NULL);
	close(folder);
}

static void a_file_that_is_torn_is_not_believed(void)
{
	static const char *const BAD[] = {
	    "", "/r", "/r\n", "r\ngroups 1\n", "/r\ngroups\n", "/r\ngroups 1 x\n", "/r\n1 2\n", "/r\ngroups 1 2 -3\n"};
	int folder = spool_open(in_scene("spool"), true);
	struct spool_run run;

	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		write_scene("spool/a.run", BAD[i], 0644);
		CHECK(!spool_recall_run(folder, "a.run", &run) && run.groups == NULL);
	}
	CHECK(!spool_recall_run(folder, "none.run", &run));
	close(folder);
}

static void only_what_is_ours_and_old_is_swept(void)
{
	static const char *const NAMES[] = {"1.1-0.0.jsonl",	  "1.1-0.0.run", "1.health",
					    ".1.1-0.0.run.7.tmp", "notes.txt",	 "2.2-0.0.jsonl",
					    "1.health.unfinished"};
	struct timeval old[2] = {{.tv_sec = time(NULL) - 31 * 86400}, {.tv_sec = time(NULL) - 31 * 86400}};
	int folder = spool_open(in_scene("spool"), true);
	char name[64];

	for (size_t i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "spool/%s", NAMES[i]);
		write_scene(name, "x", 0644);
		CHECK(i == 5 || utimes(in_scene(name), old) == 0);
	}
	spool_sweep(folder, 32);
	for (size_t i = 0; i < 7; i++)
		CHECK(faccessat(folder, NAMES[i], F_OK, 0) == 0);
	spool_sweep(folder, 30);
	for (size_t i = 0; i < 7; i++)
		CHECK((faccessat(folder, NAMES[i], F_OK, 0) == 0) == (i == 4 || i == 5));
	close(folder);
}

int main(void)
{
	RUN(the_node_s_name_takes_its_place);
	RUN(names_are_read_as_they_are_written);
	RUN(other_files_are_none_of_ours);
	RUN(the_folder_is_made_but_not_its_parents);
	RUN(a_folder_that_others_can_write_to_is_no_spool);
	RUN(notes_are_not_written_through_a_link);
	RUN(where_notes_go_is_remembered_with_the_user_s_groups);
	RUN(a_file_that_is_torn_is_not_believed);
	RUN(only_what_is_ours_and_old_is_swept);
	return 0;
}
