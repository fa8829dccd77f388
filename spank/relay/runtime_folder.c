#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime_folder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "identity.h"
#include "leftovers.h"
#include "say.h"
#include "stop_page.h"
#include "tree.h"

static bool write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, bytes, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return false;
		bytes += written;
		length -= (size_t)written;
	}
	return true;
}

static bool write_file(int folder, const char *name, const char *bytes, size_t length)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool written;

	if (fd < 0)
		return false;
	written = write_all(fd, bytes, length);
	return close(fd) == 0 && written;
}

/* Its descriptor; -1: errno says why. */
static int reserve_page(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int error;

	if (fd < 0)
		return -1;
	error = posix_fallocate(fd, 0, STOP_PAGE_BYTES);
	if (error != 0) {
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static bool fill(struct runtime_folder *folder, const struct identity *owner, unsigned local_tasks)
{
	char text[768];
	int length = identity_to_json(owner, text, sizeof(text));

	if (!write_file(folder->fd, LEFTOVERS_OWNER, text, (size_t)length))
		return false;
	folder->stop = reserve_page(folder->fd, "stop");
	if (folder->stop < 0)
		return false;
	for (unsigned i = 0; i < local_tasks; i++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "rank-%u", i);
		fd = reserve_page(folder->fd, name);
		if (fd < 0)
			return false;
		close(fd);
	}
	return true;
}

/* From its temporary name, with its owner inside: nobody ever takes it for a leftover. */
static bool give_name(struct runtime_folder *folder, const char *parent, const char *name)
{
	const char *random = strrchr(folder->name, '-');
	char wanted[NAME_MAX + 1];
	int length = snprintf(wanted, sizeof(wanted), "%s", name);

	if (renameat(folder->parent, folder->name, folder->parent, wanted) < 0) {
		/* The name is taken by somebody who may be alive. */
		length = snprintf(wanted, sizeof(wanted), "%s%s", name, random);
		if (renameat(folder->parent, folder->name, folder->parent, wanted) < 0)
			return false;
	}
	memcpy(folder->name, wanted, (size_t)length + 1);
	length = snprintf(folder->path, sizeof(folder->path), "%s/%s", parent, folder->name);
	errno = ENAMETOOLONG;
	return length < (int)sizeof(folder->path);
}

static bool make(struct runtime_folder *folder, const char *parent, const char *name, const struct identity *owner,
		 unsigned local_tasks)
{
	char path[PATH_MAX + NAME_MAX];

	snprintf(path, sizeof(path), "%s/.slurm-resilience-%lu-XXXXXX", parent, (unsigned long)getuid());
	if (mkdtemp(path) == NULL) /* mode 700 */
		return false;
	snprintf(folder->name, sizeof(folder->name), "%s", strrchr(path, '/') + 1);
	folder->fd = openat(folder->parent, folder->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return folder->fd >= 0 && fill(folder, owner, local_tasks) && give_name(folder, parent, name);
}

bool runtime_folder_make(struct runtime_folder *folder, const char *parent, const char *name, unsigned local_tasks)
{
	struct identity owner;

	*folder = (struct runtime_folder){ .parent = -1, .fd = -1, .stop = -1 };
	if (!identity_of_this_process(&owner)) {
		say("no runtime folder: this process can't be told from others (%s)", strerror(errno));
		return false;
	}
	folder->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->parent < 0) {
		say("no runtime folder in %s: %s", parent, strerror(errno));
		return false;
	}
	leftovers_remove(folder->parent, parent, &owner);
	if (!make(folder, parent, name, &owner, local_tasks)) {
		int error = errno;

		runtime_folder_remove(folder);
		say("no runtime folder in %s: %s", parent, strerror(error));
		return false;
	}
	return true;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void runtime_folder_remove(struct runtime_folder *folder)
{
	if (folder->name[0] != '\0' && !tree_remove(folder->parent, folder->name, LEFTOVERS_OWNER))
		say("the runtime folder %s can't be removed: %s", folder->name, strerror(errno));
	folder->name[0] = '\0';
	shut(&folder->stop);
	shut(&folder->fd);
	shut(&folder->parent);
}

bool runtime_folder_put(const struct runtime_folder *folder, const char *name, const char *bytes, size_t length)
{
	char unnamed[NAME_MAX + 1];
	int error;

	snprintf(unnamed, sizeof(unnamed), ".%.200s.tmp", name);
	if (write_file(folder->fd, unnamed, bytes, length) && renameat(folder->fd, unnamed, folder->fd, name) == 0)
		return true;
	error = errno;
	unlinkat(folder->fd, unnamed, 0);
	errno = error;
	return false;
}

bool runtime_folder_run(const struct runtime_folder *folder, char *run, size_t size)
{
	/* Not to be waited for, if it is a pipe; not to be followed: it may lead to a file system that hangs. */
	int fd = openat(folder->fd, "run", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat about;
	ssize_t length = -1;

	if (fd < 0)
		return false;
	if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size < (off_t)size)
		length = read(fd, run, size - 1);
	close(fd);
	if (length <= 0)
		return false;
	run[length] = '\0';
	if (run[length - 1] == '\n')
		run[length - 1] = '\0';
	for (const char *at = run; *at != '\0'; at++)
		if (iscntrl((unsigned char)*at))
			return false;
	return run[0] == '/';
}
