/*
 * A scene for the tests of the health gate: a folder of checks, a spool, and what was logged. What needs root is passed
 * over, and said, for others.
 */
#ifndef HEALTH_SCENE_H
#define HEALTH_SCENE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../src/health.h"

#define JOB 4711
#define PATIENT_S 60 /* ends at once when the checks do */
#define MOST 64

static char root[64], checks[96], spool[96];
static char logged[4096];

void resilience_log_error(const char *format, ...)
{
	size_t length = strlen(logged);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(logged + length, sizeof(logged) - length, format, arguments);
	va_end(arguments);
}

static inline void write_file(const char *path, mode_t mode, const char *text)
{
	FILE *file = fopen(path, "w");

	assert(file != NULL);
	assert(fputs(text, file) >= 0);
	assert(fclose(file) == 0);
	assert(chmod(path, mode) == 0);
}

static inline char *in_checks(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", checks, name);
	return path;
}

static inline void add(const char *name, const char *body)
{
	char script[4096];

	snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", body);
	write_file(in_checks(name), 0755, script);
}

static inline void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/test_health.XXXXXX");
	assert(mkdtemp(root) != NULL);
	snprintf(checks, sizeof(checks), "%s/health.d", root);
	snprintf(spool, sizeof(spool), "%s/spool", root);
	assert(mkdir(checks, 0755) == 0 && chmod(checks, 0755) == 0);
	logged[0] = '\0';
}

static inline void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf -- '%s'", root);
	assert(system(command) == 0);
}

static inline double gate(enum health_mode mode, int timeout_s)
{
	struct health_settings settings = {mode, checks, timeout_s, spool};
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	health_gate_run(&settings, JOB);
	clock_gettime(CLOCK_MONOTONIC, &after);
	return (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
}

static struct health_finding found[MOST];
static enum health_mode found_mode;

static inline size_t findings(void)
{
	return health_findings_read(spool, JOB, &found_mode, found, MOST);
}

static inline void assert_only_finding(const char *text)
{
	size_t count = findings();

	if (count != 1 || strcmp(found[0].text, text) != 0) {
		fprintf(stderr, "wanted [%s], got %zu: [%s]; logged: [%s]\n", text, count,
			count > 0 ? found[0].text : "", logged);
		abort();
	}
}

static inline void assert_no_file(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d.health", spool, JOB);
	assert(access(path, F_OK) < 0 && errno == ENOENT);
	assert(findings() == 0 && found_mode == HEALTH_OFF);
}

static inline bool eventually_gone(const char *pid_file)
{
	FILE *file = fopen(pid_file, "r");
	char status[64], state = 'R';
	int pid;

	assert(file != NULL && fscanf(file, "%d", &pid) == 1);
	fclose(file);
	snprintf(status, sizeof(status), "/proc/%d/stat", pid);
	for (int i = 0; i < 600; i++) { /* a minute; a zombie that its new parent doesn't reap is gone too */
		file = fopen(status, "r");
		if (file == NULL)
			return true;
		if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 'X';
		fclose(file);
		if (state == 'Z' || state == 'X')
			return true;
		usleep(100000);
	}
	return false;
}

struct test {
	const char *name;
	void (*body)(void);
};

static inline int run_all(const struct test *tests, size_t count)
{
	umask(022);
	for (size_t i = 0; i < count; i++) {
		puts(tests[i].name);
		fflush(stdout);
		begin();
		tests[i].body();
		end();
	}
	printf("%zu tests passed\n", count);
	return 0;
}

#define TEST(name)                                                                                                     \
	{                                                                                                              \
#name, name                                                                                            \
	}
#define RUN_ALL(tests) run_all(tests, sizeof(tests) / sizeof((tests)[0]))

#endif
