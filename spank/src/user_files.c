#include "user_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "text.h"

static int make(const char *path)
{
	return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

static int make_with_parents(const char *path)
{
	char prefix[PATH_MAX];
	int error;

	if (make(path) == 0)
		return 0;
	for (size_t i = 1; path[i] != '\0' && i < sizeof(prefix); i++)
		if (path[i] == '/') {
			memcpy(prefix, path, i);
			prefix[i] = '\0';
			error = make(prefix);
			/* An automounter's or a read-only folder that is there already says EROFS or EACCES. */
			if (error != 0 && access(prefix, F_OK) != 0)
				return error;
		}
	return make(path);
}

int user_files_make_life(const char *run, const char *life, bool make_run)
{
	char notes[PATH_MAX], folder[PATH_MAX];
	int error;

	if (!text_join(notes, sizeof(notes), run, "exit-notes") || !text_join(folder, sizeof(folder), notes, life))
		return ENAMETOOLONG;
	if (make_run && (error = make_with_parents(run)) != 0)
		return error;
	error = make(notes);
	return error != 0 ? error : make(folder);
}

static int write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, bytes, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? errno : EIO;
		bytes += written;
		length -= (size_t)written;
	}
	return 0;
}

static int copy_all(int from, int into)
{
	char bytes[16384];

	for (;;) {
		ssize_t length = read(from, bytes, sizeof(bytes));
		int error;

		if (length < 0 && errno == EINTR)
			continue;
		if (length <= 0)
			return length < 0 ? errno : 0;
		error = write_all(into, bytes, (size_t)length);
		if (error != 0)
			return error;
	}
}

int user_files_replace(const char *folder, const char *name, int from, const char *text)
{
	char unfinished[NAME_MAX + 1];
	int parent, fd, error;

	if ((size_t)snprintf(unfinished, sizeof(unfinished), ".%s.tmp", name) >= sizeof(unfinished))
		return ENAMETOOLONG;
	parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0)
		return errno;
	fd = openat(parent, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0) {
		error = errno;
		close(parent);
		return error;
	}
	error = from >= 0 ? copy_all(from, fd) : write_all(fd, text, strlen(text));
	if (error == 0 && fsync(fd) < 0)
		error = errno;
	if (close(fd) < 0 && error == 0)
		error = errno;
	if (error == 0 && renameat(parent, unfinished, parent, name) < 0)
		error = errno;
	if (error == 0 && fsync(parent) < 0 && errno != EINVAL) /* not every file system can */
		error = errno;
	if (error != 0)
		unlinkat(parent, unfinished, 0);
	close(parent);
	return error;
}

int user_files_first_line(const char *folder, const char *name, char *into, size_t size)
{
	char path[PATH_MAX];
	ssize_t length;
	int fd, error;

	if (!text_join(path, sizeof(path), folder, name))
		return ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno;
	length = read(fd, into, size - 1);
	error = length < 0 ? errno : 0;
	close(fd);
	into[length < 0 ? 0 : length] = '\0';
	into[strcspn(into, "\n")] = '\0';
	return error;
}

int user_files_remove_folder(const char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	int error;

	if (entries == NULL)
		return errno == ENOENT ? 0 : errno;
	while ((entry = readdir(entries)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(entries), entry->d_name, 0);
	error = rmdir(folder) == 0 || errno == ENOENT ? 0 : errno;
	closedir(entries);
	return error;
}
