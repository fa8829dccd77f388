/* What the plugin's unit tests share: a folder of their own, checks that say where they failed, and a fake Slurm. */
#ifndef SCENE_H
#define SCENE_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_spank.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s: not so: %s\nlogged: %s\n", __FILE__, __LINE__, scene_test, \
				#condition, fake_logged); \
			exit(1); \
		} \
	} while (0)

#define RUN(test) scene_run(#test, test)

static const char *scene_test = "";
static char scene_folder[64];

/* A path in the test's folder; valid for a few calls. */
static inline const char *in_scene(const char *name)
{
	static char paths[8][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, PATH_MAX, "%s/%s", scene_folder, name);
	return path;
}

static inline void write_scene(const char *name, const char *text, mode_t mode)
{
	int fd = open(in_scene(name), O_WRONLY | O_CREAT | O_TRUNC, mode);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(fchmod(fd, mode) == 0);
	close(fd);
}

static inline const char *read_path(const char *path)
{
	static char text[65536];
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[length < 0 ? 0 : length] = '\0';
	if (fd >= 0)
		close(fd);
	return fd < 0 ? NULL : text;
}

static inline bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static inline void scene_run(const char *name, void (*test)(void))
{
	char command[128];

	scene_test = name;
	snprintf(scene_folder, sizeof(scene_folder), "/tmp/resilience-test-XXXXXX");
	CHECK(mkdtemp(scene_folder) != NULL);
	CHECK(chmod(scene_folder, 0755) == 0);
	fake_reset();
	test();
	snprintf(command, sizeof(command), "rm -rf %s", scene_folder);
	CHECK(system(command) == 0);
	printf("  %s\n", name);
	fflush(stdout); /* valgrind has each child write it again */
}

#endif
