/* When Slurm is asked and RUN is looked at: time is a number here, squeue a script, and its answers come from children.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../relay/end_watch.h"
#include "../relay/process.h"
#include "relay_test.h"

#define WALL_S 1764000000.0

static char home[64] = "/tmp/relay-watch-XXXXXX";
static char run[128];
static struct end_watch watch;

static void write_file(const char *name, const char *text, mode_t mode)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", home, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void put_squeue(const char *script)
{
	char text[512];
	char path[256];

	snprintf(path, sizeof(path), "%s/squeue", home);
	unlink(path); /* one that still runs can't be written */
	snprintf(text, sizeof(text), "#!/bin/sh\necho \"$*|$SLURM_TIME_FORMAT|$SQUEUE_FORMAT\" >> %s/asked\n%s\n", home,
		 script);
	write_file("squeue", text, 0700);
}

static int times_asked(void)
{
	char path[256], text[4096] = "";
	int fd, lines = 0;
	ssize_t length;

	snprintf(path, sizeof(path), "%s/asked", home);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	for (ssize_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines;
}

static void open_watch(bool asks, const char *run_known, double known_s)
{
	static struct arguments arguments;

	arguments = (struct arguments){ .life = "77_4-2", .step = 3, .run = run_known, .ask_slurm = asks };
	end_watch_open(&watch, &arguments, known_s, 022);
}

/* Time stands still until all children came back. Whether the end has moved. */
static bool settle(double now_s)
{
	bool moved = false;

	for (int i = 0; i < 6000; i++) {
		moved = end_watch_look(&watch, now_s, WALL_S + now_s) || moved;
		if (watch.asking.pid == 0 && watch.carrying.pid == 0)
			return moved;
		poll(NULL, 0, 10);
	}
	CHECK(false);
	return moved;
}

static void slurm_is_asked_at_once_and_every_minute(void)
{
	int before = times_asked();

	put_squeue("echo 1764500000");
	setenv("SQUEUE_FORMAT", "%i", 1);
	setenv("SLURM_TIME_FORMAT", "relative", 1);
	open_watch(true, NULL, NAN);
	CHECK(settle(1000) && watch.known_s == 1764500000);
	CHECK(times_asked() == before + 1);
	CHECK(!settle(1059) && times_asked() == before + 1);
	put_squeue("echo 1764600000");
	CHECK(settle(1060) && watch.known_s == 1764600000 && times_asked() == before + 2);
	CHECK(!settle(1120) && times_asked() == before + 3);
	end_watch_close(&watch);
}

static void silence_nonsense_and_failure_change_nothing(void)
{
	static const char *const bad[] = { "echo N/A",
					   "exit 1",
					   "kill -9 $$",
					   "echo garbage",
					   "echo 1764700000; exit 1",
					   "head -c 300000 /dev/zero | tr '\\0' x",
					   "head -c 100 /dev/urandom" };

	open_watch(true, NULL, 1764500000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_squeue(bad[i]);
		CHECK(!settle(1000 + 60 * (double)i) && watch.known_s == 1764500000);
	}
	end_watch_close(&watch);
}

/* Of the process that the script left running; 0: it isn't there yet. */
static pid_t sleeper(void)
{
	char path[256], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/sleeper", home);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return strchr(text, '\n') != NULL ? atoi(text) : 0;
}

/* Gone, or dead and waiting for whoever reaps orphans here. */
static bool is_dead(pid_t pid)
{
	unsigned long long ticks;

	return process_started(pid, &ticks) == PROCESS_GONE;
}

static void a_squeue_that_hangs_is_killed_with_all_it_started(void)
{
	char script[256];
	pid_t left;

	snprintf(script, sizeof(script), "sleep 1000 & echo $! > %s/sleeper; wait", home);
	put_squeue(script);
	open_watch(true, NULL, 1764500000);
	CHECK(!end_watch_look(&watch, 1000, WALL_S));
	for (int i = 0; i < 3000 && sleeper() == 0; i++)
		poll(NULL, 0, 10);
	left = sleeper();
	CHECK(left > 0 && !is_dead(left));
	CHECK(!end_watch_look(&watch, 1019, WALL_S) && watch.asking.pid > 0);
	CHECK(!settle(1020) && watch.asking.overdue && watch.known_s == 1764500000);
	for (int i = 0; i < 3000 && !is_dead(left); i++)
		poll(NULL, 0, 10);
	CHECK(is_dead(left));
	end_watch_close(&watch);
}

static void without_squeue_life_goes_on(void)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s", getenv("PATH"));
	setenv("PATH", "/nonexistent", 1);
	open_watch(true, NULL, 1764500000);
	CHECK(!settle(1000) && watch.asking.code == 127 && watch.known_s == 1764500000);
	setenv("PATH", path, 1);
	end_watch_close(&watch);
}

static void the_end_goes_to_the_other_nodes_by_run(void)
{
	static struct end_watch other;
	static struct arguments arguments = { .life = "77_4-2" };
	char path[256];
	struct stat about;

	put_squeue("echo 1764500000");
	open_watch(true, NULL, NAN);
	CHECK(settle(1000) && watch.known_s == 1764500000); /* RUN isn't known: nobody is told */
	end_watch_take_run(&watch, run);
	CHECK(!settle(1001) && isnan(watch.carried_s)); /* RUN isn't there: it isn't made by us */
	CHECK(stat(run, &about) < 0);
	CHECK(mkdir(run, 0755) == 0);
	CHECK(!settle(1003) && isnan(watch.carried_s)); /* too soon */
	CHECK(!settle(1006) && watch.carried_s == 1764500000);
	snprintf(path, sizeof(path), "%s/exit-notes/77_4-2/end.json", run);
	CHECK(stat(path, &about) == 0 && (about.st_mode & 0777) == 0644);

	arguments.run = run;
	end_watch_open(&other, &arguments, NAN, 022);
	CHECK(!end_watch_look(&other, 2000, WALL_S));
	for (int i = 0; i < 3000 && !end_watch_look(&other, 2001, WALL_S); i++)
		poll(NULL, 0, 10);
	CHECK(other.known_s == 1764500000);
	for (int i = 0; i < 3000 && (i == 0 || other.carrying.pid != 0); i++) {
		CHECK(!end_watch_look(&other, 2006, WALL_S)); /* the same file: it isn't read again */
		poll(NULL, 0, 10);
	}
	CHECK(other.carrying.pid == 0 && other.carrying.code == END_FILE_SAME);
	end_watch_close(&other);

	put_squeue("echo 1764600000");
	CHECK(settle(1060) && watch.known_s == 1764600000);
	CHECK(!settle(1066) && watch.carried_s == 1764600000);
	end_watch_close(&watch);
}

static void a_run_that_refuses_is_said_and_tried_again(void)
{
	char path[256];

	open_watch(false, run, 1764500000);
	snprintf(path, sizeof(path), "%s/exit-notes/77_4-2/end.json", run);
	write_file("R/exit-notes/77_4-2/end.json", "{\"end_s\": torn", 0644);
	CHECK(!settle(1000) && watch.known_s == 1764500000);
	write_file("R/exit-notes/77_4-2/end.json", "{\"end_s\": 1764800000.0}", 0644);
	CHECK(settle(1005) && watch.known_s == 1764800000);
	unlink(path);
	CHECK(!settle(1010) && watch.known_s == 1764800000);
	CHECK(mkfifo(path, 0600) == 0); /* nobody waits for its writer */
	CHECK(!settle(1015) && watch.known_s == 1764800000);
	end_watch_close(&watch);

	put_squeue("echo 1764900000");
	snprintf(path, sizeof(path), "%s/squeue", home); /* a file, not a folder */
	open_watch(true, path, NAN);
	CHECK(settle(1000) && watch.known_s == 1764900000 && isnan(watch.carried_s));
	CHECK(!settle(1005) && isnan(watch.carried_s));
	end_watch_close(&watch);
}

int main(void)
{
	char path[4200], command[128];

	CHECK(mkdtemp(home) != NULL);
	snprintf(run, sizeof(run), "%s/R", home);
	snprintf(path, sizeof(path), "%s:%s", home, getenv("PATH"));
	setenv("PATH", path, 1);
	slurm_is_asked_at_once_and_every_minute();
	silence_nonsense_and_failure_change_nothing();
	a_squeue_that_hangs_is_killed_with_all_it_started();
	without_squeue_life_goes_on();
	the_end_goes_to_the_other_nodes_by_run();
	a_run_that_refuses_is_said_and_tried_again();
	snprintf(command, sizeof(command), "rm -r %s", home);
	CHECK(system(command) == 0);
	return relay_test_end();
}
