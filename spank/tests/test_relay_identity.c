/* Who owns a runtime folder, and which of them are leftovers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../relay/identity.h"
#include "../relay/runtime_folder.h"
#include "relay_test.h"

static char home[64] = "/tmp/relay-folder-XXXXXX";
static struct identity here;

static void what_is_written_is_read_back(void)
{
	struct identity got;
	char text[768];

	CHECK(identity_of_this_process(&here) && here.pid == getpid());
	identity_to_json(&here, text, sizeof(text));
	CHECK(identity_from_json(text, &got));
	CHECK(strcmp(got.host, here.host) == 0 && strcmp(got.boot_id, here.boot_id) == 0 && got.pid == here.pid);
	CHECK(got.started_ticks == here.started_ticks && got.pid_namespace == here.pid_namespace);
	CHECK(identity_liveness(&got, &here) == IDENTITY_ALIVE);
}

static void what_is_not_certain_is_refused(void)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"host\": \"a\"}",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 5}",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 5, \"started_ticks\": 1",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 5, \"started_ticks\": 1} x",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": -5, \"started_ticks\": 1}",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 99999999999, \"started_ticks\": 1}",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 5, \"started_ticks\": 99999999999999999999999}",
		"{\"host\": \"a\\u0041\", \"boot_id\": \"b\", \"pid\": 5, \"started_ticks\": 1}",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 5, \"started_ticks\": 1, \"new\": 1}",
		"{\"host\": \"a\", \"boot_id\": \"b\", \"pid\": 5, \"started_ticks\": 1,}",
		"{\"host\": \"a",
	};
	struct identity got;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!identity_from_json(bad[i], &got));
	CHECK(identity_from_json(
		"{\"host\":\"a\",\"boot_id\":\"b\",\"pid\":5,\"started_ticks\":1,\"pid_namespace\":null}", &got));
	CHECK(got.pid_namespace == 0);
}

static pid_t dead_process(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	return child;
}

static void only_what_this_machine_can_know_is_gone(void)
{
	struct identity who = here;

	who.started_ticks++;
	CHECK(identity_liveness(&who, &here) == IDENTITY_GONE); /* its number is another's */
	who = here;
	who.pid = dead_process();
	CHECK(identity_liveness(&who, &here) == IDENTITY_GONE);
	who.pid_namespace++;
	CHECK(identity_liveness(&who, &here) == IDENTITY_UNKNOWN);
	who = here;
	snprintf(who.boot_id, sizeof(who.boot_id), "another");
	CHECK(identity_liveness(&who, &here) == IDENTITY_GONE);
	snprintf(who.host, sizeof(who.host), "elsewhere");
	CHECK(identity_liveness(&who, &here) == IDENTITY_UNKNOWN);
}

static void put_owner(const char *folder, const struct identity *owner)
{
	char path[256], text[768];
	int fd, length = identity_to_json(owner, text, sizeof(text));

	snprintf(path, sizeof(path), "%s/%s", home, folder);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/%s/owner.json", home, folder);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0 && write(fd, text, (size_t)length) == length);
	close(fd);
}

static bool is_there(const char *name)
{
	char path[256];
	struct stat about;

	snprintf(path, sizeof(path), "%s/%s", home, name);
	return lstat(path, &about) == 0;
}

static unsigned entries(void)
{
	DIR *folder = opendir(home);
	unsigned count = 0;

	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count - 2;
}

static void leftovers_go_and_the_living_stay(void)
{
	struct runtime_folder folder;
	struct identity gone = here;
	char left[64], unnamed[64], living[64], silent[64], linked[64], foreign[64];
	char empty[64], made_now[64], made_before[64], path[256];
	struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	gone.started_ticks++;
	snprintf(left, sizeof(left), "slurm-resilience-%u-run-a0001-n0", getuid());
	snprintf(unnamed, sizeof(unnamed), ".slurm-resilience-%u-abcdef", getuid());
	snprintf(living, sizeof(living), "slurm-resilience-%u-relay-2-0-s0-n0", getuid());
	snprintf(silent, sizeof(silent), "slurm-resilience-%u-silent", getuid());
	snprintf(linked, sizeof(linked), "slurm-resilience-%u-linked", getuid());
	snprintf(foreign, sizeof(foreign), "slurm-resilience-%u9-other", getuid());
	put_owner(left, &gone);
	put_owner(unnamed, &gone);
	put_owner(living, &here);
	put_owner("target", &gone);
	put_owner(foreign, &gone);
	snprintf(empty, sizeof(empty), "slurm-resilience-%u-empty", getuid());
	snprintf(made_now, sizeof(made_now), ".slurm-resilience-%u-now", getuid());
	snprintf(made_before, sizeof(made_before), ".slurm-resilience-%u-before", getuid());
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", home, (char *[]){ silent, empty, made_now, made_before }[i]);
		CHECK(mkdir(path, 0700) == 0);
	}
	CHECK(utimensat(AT_FDCWD, path, long_ago, 0) == 0);
	snprintf(path, sizeof(path), "%s/%s/stop", home, silent);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/%s", home, linked);
	CHECK(symlink("target", path) == 0);
	snprintf(path, sizeof(path), "%s/%s/sub", home, left);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/%s/sub/link", home, left);
	CHECK(symlink("../../target", path) == 0);

	CHECK(runtime_folder_make(&folder, home, "slurm-resilience-new", 2));
	CHECK(!is_there(left) && !is_there(unnamed));
	CHECK(!is_there(empty) && !is_there(made_before) && is_there(made_now));
	CHECK(is_there(living) && is_there(silent) && is_there(linked) && is_there("target/owner.json") &&
	      is_there(foreign));
	CHECK(is_there("slurm-resilience-new/rank-1") && !is_there("slurm-resilience-new/rank-2"));
	runtime_folder_remove(&folder);
	CHECK(!is_there("slurm-resilience-new"));
	runtime_folder_remove(&folder); /* twice is harmless */
}

static void a_name_that_is_taken_gets_a_neighbour(void)
{
	struct runtime_folder one, other;

	CHECK(runtime_folder_make(&one, home, "slurm-resilience-same", 1));
	CHECK(runtime_folder_make(&other, home, "slurm-resilience-same", 1));
	CHECK(strcmp(one.name, other.name) != 0 && is_there(one.name) && is_there(other.name));
	runtime_folder_remove(&other);
	CHECK(is_there(one.name));
	runtime_folder_remove(&one);
}

static void no_room_leaves_nothing(void)
{
	struct runtime_folder folder;
	struct rlimit before, little;
	unsigned count = entries();

	getrlimit(RLIMIT_FSIZE, &before);
	little = (struct rlimit){ .rlim_cur = 1000, .rlim_max = before.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &little);
	CHECK(!runtime_folder_make(&folder, home, "slurm-resilience-new", 2));
	setrlimit(RLIMIT_FSIZE, &before);
	CHECK(entries() == count);
	CHECK(!runtime_folder_make(&folder, "/nonexistent", "slurm-resilience-new", 2));
}

static void the_run_is_believed_only_where_it_can_be(void)
{
	struct runtime_folder folder;
	char run[64], path[8192];

	CHECK(runtime_folder_make(&folder, home, "slurm-resilience-new", 1));
	CHECK(!runtime_folder_run(&folder, run, sizeof(run)));
	CHECK(runtime_folder_put(&folder, "run", "/shared/run one\n", 16));
	CHECK(runtime_folder_run(&folder, run, sizeof(run)) && strcmp(run, "/shared/run one") == 0);
	CHECK(runtime_folder_put(&folder, "run", "/r", 2) && runtime_folder_run(&folder, run, sizeof(run)));
	CHECK(runtime_folder_put(&folder, "run", "here\n", 5) && !runtime_folder_run(&folder, run, sizeof(run)));
	CHECK(runtime_folder_put(&folder, "run", "/a\n/b\n", 6) && !runtime_folder_run(&folder, run, sizeof(run)));
	CHECK(runtime_folder_put(&folder, "run", "", 0) && !runtime_folder_run(&folder, run, sizeof(run)));
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	CHECK(runtime_folder_put(&folder, "run", path, sizeof(path)) && !runtime_folder_run(&folder, run, sizeof(run)));
	snprintf(path, sizeof(path), "%s/slurm-resilience-new/run", home);
	CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0 && !runtime_folder_run(&folder, run, sizeof(run)));
	CHECK(unlink(path) == 0 && symlink("/etc/hostname", path) == 0 &&
	      !runtime_folder_run(&folder, run, sizeof(run)));
	runtime_folder_remove(&folder);
}

int main(void)
{
	char command[128];

	CHECK(mkdtemp(home) != NULL);
	what_is_written_is_read_back();
	what_is_not_certain_is_refused();
	only_what_this_machine_can_know_is_gone();
	leftovers_go_and_the_living_stay();
	a_name_that_is_taken_gets_a_neighbour();
	no_room_leaves_nothing();
	the_run_is_believed_only_where_it_can_be();
	snprintf(command, sizeof(command), "rm -r %s", home);
	CHECK(system(command) == 0);
	return relay_test_end();
}
