#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DEEPEST 32

static bool remove_folder(int parent, const char *name, const char *last, int depth);

static bool remove_entry(int parent, const char *name, int depth)
{
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return true;
	if (errno != EISDIR && errno != EPERM)
		return false;
	return remove_folder(parent, name, NULL, depth + 1);
}

static bool empty_folder(DIR *folder, const char *last, int depth)
{
	bool all = true;
	struct dirent *entry;

	while ((entry = readdir(folder)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (last != NULL && strcmp(entry->d_name, last) == 0)
			continue;
		all = remove_entry(dirfd(folder), entry->d_name, depth) && all;
	}
	return all;
}

static bool remove_folder(int parent, const char *name, const char *last, int depth)
{
	int fd;
	DIR *folder;
	bool all;

	if (depth > DEEPEST) {
		errno = ELOOP;
		return false;
	}
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	folder = fdopendir(fd);
	if (folder == NULL) {
		close(fd);
		return false;
	}
	all = empty_folder(folder, last, depth);
	if (all && last != NULL)
		all = remove_entry(fd, last, depth);
	closedir(folder);
	return all && (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

bool tree_remove(int parent, const char *name, const char *last)
{
	return remove_folder(parent, name, last, 0);
}
