#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "end_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "end_of_time.h"

#define ROOM (PATH_MAX + 256)

static int fail(const char *path)
{
	dprintf(STDOUT_FILENO, "%.1000s: %s", path, strerror(errno));
	return END_FILE_FAILED;
}

static bool make_folder(const char *path)
{
	return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static bool write_durably(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	bool written;

	if (fd < 0)
		return false;
	written = write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fsync(fd) == 0;
	return close(fd) == 0 && written;
}

static void sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)fsync(fd); /* some file systems can't: the file is whole either way */
	close(fd);
}

int end_file_write(const void *argument)
{
	const struct end_file *file = argument;
	char folder[ROOM], unnamed[ROOM + 64], path[ROOM + 64], text[64];
	struct stat about;

	umask(file->user_umask);
	if (stat(file->run, &about) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return END_FILE_ABSENT; /* whoever runs makes it, not we */
	snprintf(folder, sizeof(folder), "%s/exit-notes", file->run);
	if (!make_folder(folder))
		return fail(folder);
	snprintf(folder, sizeof(folder), "%s/exit-notes/%s", file->run, file->life);
	if (!make_folder(folder))
		return fail(folder);
	/* Two steps of a job may write the same file, each by a name of its own. */
	snprintf(unnamed, sizeof(unnamed), "%s/.end.json.s%u.tmp", folder, file->step);
	snprintf(path, sizeof(path), "%s/end.json", folder);
	end_to_json(file->end_s, text, sizeof(text));
	if (!write_durably(unnamed, text) || rename(unnamed, path) < 0) {
		int code = fail(path);

		unlink(unnamed);
		return code;
	}
	sync_folder(folder);
	return END_FILE_DONE;
}

int end_file_read(const void *argument)
{
	const struct end_file *file = argument;
	char path[ROOM + 64], stamp[sizeof(file->stamp)], text[2048];
	struct stat about;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/exit-notes/%s/end.json", file->run, file->life);
	if (stat(path, &about) < 0)
		return errno == ENOENT || errno == ENOTDIR ? END_FILE_ABSENT : fail(path);
	snprintf(stamp, sizeof(stamp), "%lld.%09ld %lld %llu", (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
		 (long long)about.st_size, (unsigned long long)about.st_ino);
	if (strcmp(stamp, file->stamp) == 0)
		return END_FILE_SAME;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? END_FILE_ABSENT : fail(path);
	length = read(fd, text, sizeof(text) - 1);
	if (length < 0)
		return fail(path);
	text[length] = '\0';
	dprintf(STDOUT_FILENO, "%s\n%s", stamp, text);
	return END_FILE_DONE;
}

const char *end_file_take(struct end_file *file, const char *printed)
{
	size_t length = strcspn(printed, "\n");

	if (printed[length] == '\0' || length >= sizeof(file->stamp))
		return "";
	memcpy(file->stamp, printed, length);
	file->stamp[length] = '\0';
	return printed + length + 1;
}
