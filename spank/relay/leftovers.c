#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "say.h"
#include "tree.h"

#define EMPTY_SINCE_S 60

static bool is_ours(int parent, const char *name)
{
	struct stat about;

	return fstatat(parent, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode) &&
	       about.st_uid == getuid();
}

static bool read_owner(int parent, const char *name, struct identity *owner)
{
	char text[1024];
	struct stat about;
	ssize_t length = -1;
	int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd;

	if (folder < 0)
		return false;
	fd = openat(folder, LEFTOVERS_OWNER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(folder);
	if (fd < 0)
		return false;
	if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
		length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return identity_from_json(text, owner);
}

/*
 * Whoever died at it: a folder without anything in it is nobody's. One that has no name yet may be a moment old. rmdir
 * takes no other.
 */
static void remove_empty(int parent, const char *name)
{
	struct stat about;

	if (name[0] == '.' &&
	    (fstatat(parent, name, &about, AT_SYMLINK_NOFOLLOW) < 0 || about.st_mtime > time(NULL) - EMPTY_SINCE_S))
		return;
	(void)unlinkat(parent, name, AT_REMOVEDIR);
}

void leftovers_remove(int fd, const char *parent, const struct identity *here)
{
	char prefix[64];
	size_t length = (size_t)snprintf(prefix, sizeof(prefix), ".slurm-resilience-%lu-", (unsigned long)getuid());
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;

	if (folder == NULL) {
		if (again >= 0)
			close(again);
		return;
	}
	while ((entry = readdir(folder)) != NULL) {
		struct identity owner;
		bool named = strncmp(entry->d_name, prefix + 1, length - 1) == 0;
		bool unnamed = strncmp(entry->d_name, prefix, length) == 0;

		if ((!named && !unnamed) || !is_ours(fd, entry->d_name))
			continue;
		if (!read_owner(fd, entry->d_name, &owner)) {
			remove_empty(fd, entry->d_name);
			continue;
		}
		if (identity_liveness(&owner, here) != IDENTITY_GONE)
			continue;
		if (tree_remove(fd, entry->d_name, LEFTOVERS_OWNER))
			say("removed %s/%s, left by process %lld", parent, entry->d_name, owner.pid);
	}
	closedir(folder);
}
