#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "health.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "health_check.h"
#include "health_folder.h"

#define LONGEST_TIMEOUT_S 300
#define LOOK_EVERY_MS 20
#define REAP_WITHIN_MS 1000
#define FILE_MAX (HEALTH_CHECKS_MAX * sizeof(struct health_finding))

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Listens to all of them until all have ended or it is `until_ms`. */
static void wait_for(struct health_check *checks, size_t count, int64_t until_ms)
{
	struct pollfd ears[HEALTH_CHECKS_MAX];

	for (;;) {
		bool running = false;
		int64_t left_ms = until_ms - now_ms();

		for (size_t i = 0; i < count; i++) {
			if (!health_check_ended(&checks[i]) && checks[i].pid != 0)
				running = true;
			ears[i] = (struct pollfd){.fd = checks[i].output, .events = POLLIN}; /* -1: passed over */
		}
		if (!running || left_ms <= 0)
			return;
		/* An end makes no descriptor ready where a grandchild holds the pipe, so it is looked for as well. */
		if (poll(ears, count, (int)(left_ms < LOOK_EVERY_MS ? left_ms : LOOK_EVERY_MS)) <= 0)
			continue;
		for (size_t i = 0; i < count; i++)
			if (ears[i].revents != 0)
				health_check_listen(&checks[i]);
	}
}

/* One that sits in the kernel does not die of SIGKILL: it is left to init, for the job can't wait for it. */
static void end_the_late(struct health_check *checks, size_t count)
{
	int64_t until_ms = now_ms() + REAP_WITHIN_MS;

	for (size_t i = 0; i < count; i++) {
		checks[i].late = checks[i].pid != 0;
		health_check_kill(&checks[i]);
	}
	wait_for(checks, count, until_ms);
	for (size_t i = 0; i < count; i++)
		health_check_hang_up(&checks[i]);
}

/* All at once, so that one that hangs doesn't cost the others their turn. */
static void run(struct health_check *checks, size_t count, int timeout_s, uint32_t job_id)
{
	char job[48], limit[48];
	char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
	/* Nothing that came from a user reaches what root runs. */
	char *const environment[] = {job, limit, path, locale, NULL};
	struct sigaction mine = {.sa_handler = SIG_DFL}, theirs;
	int64_t deadline_ms = now_ms() + timeout_s * 1000LL;

	snprintf(job, sizeof(job), "RESILIENCE_JOB_ID=%" PRIu32, job_id);
	snprintf(limit, sizeof(limit), "RESILIENCE_HEALTH_TIMEOUT=%d", timeout_s);
	sigaction(SIGCHLD, &mine, &theirs); /* ignored, it would take the exit codes from us */
	for (size_t i = 0; i < count; i++)
		if (!health_check_start(&checks[i], environment))
			resilience_log_error("the health check %s can't be started: %s", checks[i].path,
					     strerror(errno));
	wait_for(checks, count, deadline_ms);
	end_the_late(checks, count);
	sigaction(SIGCHLD, &theirs, NULL);
}

static void describe(const struct health_check *check, int timeout_s, struct health_finding *finding)
{
	char text[HEALTH_SAID_MAX + 1];

	if (check->late)
		snprintf(text, sizeof(text), "did not answer within %d s%s", timeout_s,
			 check->pid != 0 ? ", and hangs in the kernel: it can't be killed" : "");
	else if (check->said_length > 0)
		snprintf(text, sizeof(text), "%s", check->said);
	else if (WIFSIGNALED(check->status))
		snprintf(text, sizeof(text), "died of signal %d and said nothing", WTERMSIG(check->status));
	else
		snprintf(text, sizeof(text), "left with %d and said nothing", WEXITSTATUS(check->status));
	snprintf(finding->text, sizeof(finding->text), "%s: %s", check->name, text);
}

/* Names are checked so that they fit: the ids of jobs are numbers. */
static bool name_file(char path[PATH_MAX], const char *spool, uint32_t job_id, const char *ending)
{
	return (size_t)snprintf(path, PATH_MAX, "%s/%" PRIu32 ".health%s", spool, job_id, ending) < PATH_MAX;
}

static bool write_findings(const char *path, enum health_mode mode, const struct health_finding *findings, size_t count)
{
	int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
	bool good;

	if (file == NULL) {
		if (descriptor >= 0)
			close(descriptor);
		return false;
	}
	fchmod(descriptor, 0644); /* whatever the umask: the job's user reads it */
	fprintf(file, "%s\n", mode == HEALTH_EXCLUDE ? "exclude" : "warn");
	for (size_t i = 0; i < count; i++)
		fprintf(file, "%s\n", findings[i].text);
	good = ferror(file) == 0;
	return fclose(file) == 0 && good;
}

/* No fsync: a node that loses its power loses the job too. The rename is for readers, who see all or nothing. */
static void keep(const struct health_settings *settings, uint32_t job_id, const struct health_finding *findings,
		 size_t count)
{
	char path[PATH_MAX], unfinished[PATH_MAX];

	if (!name_file(path, settings->spool, job_id, "") ||
	    !name_file(unfinished, settings->spool, job_id, ".unfinished")) {
		resilience_log_error("the name of the spool %s is too long", settings->spool);
		return;
	}
	if (mkdir(settings->spool, 0755) == 0)
		chmod(settings->spool, 0755);
	unlink(unfinished);
	if (write_findings(unfinished, settings->mode, findings, count) && rename(unfinished, path) == 0)
		return;
	resilience_log_error("what the health checks found can't be written to %s: %s", path, strerror(errno));
	unlink(unfinished);
}

void health_gate_run(const struct health_settings *settings, uint32_t job_id)
{
	struct health_finding findings[HEALTH_CHECKS_MAX];
	struct health_check *checks;
	size_t check_count, finding_count = 0;
	int timeout_s = settings->timeout_s;

	if (settings->mode == HEALTH_OFF)
		return;
	if (timeout_s < 1 || timeout_s > LONGEST_TIMEOUT_S)
		timeout_s = timeout_s < 1 ? 1 : LONGEST_TIMEOUT_S;
	health_findings_forget(settings->spool, job_id); /* the job was here before, and the node may be well now */
	checks = calloc(HEALTH_CHECKS_MAX, sizeof(*checks));
	if (checks == NULL) {
		resilience_log_error("no memory for the health checks: none is run");
		return;
	}
	check_count = health_folder_list(settings->directory, checks);
	run(checks, check_count, timeout_s, job_id);
	for (size_t i = 0; i < check_count; i++)
		if (checks[i].late || (checks[i].ended && checks[i].status != 0))
			describe(&checks[i], timeout_s, &findings[finding_count++]);
	free(checks);
	if (finding_count > 0)
		keep(settings, job_id, findings, finding_count);
}

/* The whole file, zero-ended; NULL: there is none, or it isn't one of ours. The caller frees it. */
static char *read_file(const char *path)
{
	int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat found;
	char *text = NULL;
	ssize_t length;

	if (descriptor < 0)
		return NULL;
	if (fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
	    (found.st_uid == 0 || found.st_uid == geteuid()) && found.st_size <= (off_t)FILE_MAX)
		text = calloc(1, (size_t)found.st_size + 1);
	if (text != NULL) {
		length = read(descriptor, text, (size_t)found.st_size);
		text[length < 0 ? 0 : length] = '\0';
	}
	close(descriptor);
	return text;
}

static enum health_mode mode_named(const char *word)
{
	if (word != NULL && strcmp(word, "exclude") == 0)
		return HEALTH_EXCLUDE;
	return word != NULL && strcmp(word, "warn") == 0 ? HEALTH_WARN : HEALTH_OFF;
}

size_t health_findings_read(const char *spool, uint32_t job_id, enum health_mode *mode, struct health_finding *out,
			    size_t max)
{
	char path[PATH_MAX], *rest = NULL, *line, *text;
	size_t count = 0;

	*mode = HEALTH_OFF;
	text = name_file(path, spool, job_id, "") ? read_file(path) : NULL;
	if (text == NULL)
		return 0;
	*mode = mode_named(strtok_r(text, "\n", &rest));
	while (*mode != HEALTH_OFF && count < max && (line = strtok_r(NULL, "\n", &rest)) != NULL) {
		for (char *byte = line; *byte != '\0'; byte++)
			if (*byte < 0x20 || *byte > 0x7e)
				*byte = '?';
		snprintf(out[count].text, sizeof(out[count].text), "%s", line);
		count++;
	}
	free(text);
	return count;
}

void health_findings_forget(const char *spool, uint32_t job_id)
{
	char path[PATH_MAX];

	if (name_file(path, spool, job_id, "") && unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
		resilience_log_error("the old findings in %s can't be removed: %s", path, strerror(errno));
}
