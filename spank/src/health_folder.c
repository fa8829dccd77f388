#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "health_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "health.h"

/* What package managers and editors leave beside a file: not meant to be run. */
static const char *const LEFTOVERS[] = {".dpkg-dist", ".dpkg-new", ".dpkg-old", ".dpkg-tmp", ".rpmnew",
					".rpmorig",   ".rpmsave",  ".bak",	".orig",     ".swp"};

static bool is_check_name(const char *name)
{
	size_t length = strlen(name);

	if (name[0] == '.' || name[length - 1] == '~')
		return false;
	for (size_t i = 0; i < sizeof(LEFTOVERS) / sizeof(LEFTOVERS[0]); i++) {
		size_t ending = strlen(LEFTOVERS[i]);

		if (length > ending && strcmp(name + length - ending, LEFTOVERS[i]) == 0)
			return false;
	}
	return true;
}

/* Logs and returns false if anybody but root (or who we are) could change what this one name leads to. */
static bool one_is_safe(const char *path, bool on_the_way)
{
	struct stat found;

	if (stat(path, &found) < 0) {
		resilience_log_error("no health check is run from %s: %s", path, strerror(errno));
		return false;
	}
	if (found.st_uid != 0 && found.st_uid != geteuid()) {
		resilience_log_error("no health check is run from %s: it belongs to uid %u, and root would run it",
				     path, (unsigned)found.st_uid);
		return false;
	}
	/* In a sticky folder like /tmp others can add names, but not replace ours. */
	if ((found.st_mode & 022) != 0 && !(on_the_way && (found.st_mode & S_ISVTX) != 0)) {
		resilience_log_error(
		    "no health check is run from %s: others can write to it (mode %04o), and root would "
		    "run what they write",
		    path, (unsigned)(found.st_mode & 07777));
		return false;
	}
	return true;
}

/* Every folder from the root to `path`, which has no links in it, and `path` itself. */
static bool whole_way_is_safe(const char *path)
{
	char prefix[PATH_MAX];

	if (!one_is_safe("/", true))
		return false;
	for (size_t i = 1; path[i] != '\0'; i++) {
		if (path[i] != '/')
			continue;
		memcpy(prefix, path, i);
		prefix[i] = '\0';
		if (!one_is_safe(prefix, true))
			return false;
	}
	return one_is_safe(path, false);
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
	return strcmp((*left)->d_name, (*right)->d_name); /* the same order in every locale */
}

/* False: not one to run. `folder` is safe and free of links; the file itself may be a link, as admins like to make. */
static bool take(const char *folder, const char *name, struct health_check *check)
{
	char path[PATH_MAX];
	struct stat found;

	if (!is_check_name(name))
		return false;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return false;
	if (realpath(path, check->path) == NULL || stat(check->path, &found) < 0) {
		resilience_log_error("the health check %s is not run: %s", path, strerror(errno));
		return false;
	}
	/* A README, a folder, or a check that was switched off with chmod -x. */
	if (!S_ISREG(found.st_mode) || (found.st_mode & 0111) == 0)
		return false;
	if (!whole_way_is_safe(check->path))
		return false;
	snprintf(check->name, sizeof(check->name), "%.*s", (int)sizeof(check->name) - 1, name);
	for (char *byte = check->name; *byte != '\0'; byte++)
		if (*byte < 0x21 || *byte > 0x7e || *byte == ':') /* the name ends at the first colon for who reads */
			*byte = '?';
	return true;
}

size_t health_folder_list(const char *directory, struct health_check checks[HEALTH_CHECKS_MAX])
{
	char folder[PATH_MAX];
	struct dirent **entries;
	size_t found = 0;
	int entry_count;

	if (realpath(directory, folder) == NULL) {
		resilience_log_error("the health checks in %s are not run: %s", directory, strerror(errno));
		return 0;
	}
	if (!whole_way_is_safe(folder))
		return 0;
	entry_count = scandir(folder, &entries, NULL, by_name);
	if (entry_count < 0) {
		resilience_log_error("the health checks in %s are not run: %s", directory, strerror(errno));
		return 0;
	}
	for (int i = 0; i < entry_count; i++) {
		if (found < HEALTH_CHECKS_MAX)
			found += take(folder, entries[i]->d_name, &checks[found]);
		else if (is_check_name(entries[i]->d_name))
			resilience_log_error("%s/%s is not looked at: the first %d health checks are run, no more",
					     directory, entries[i]->d_name, HEALTH_CHECKS_MAX);
		free(entries[i]);
	}
	free(entries);
	return found;
}
