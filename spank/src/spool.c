#include "spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

bool spool_expand(const char *pattern, const char *node, char *into, size_t size)
{
	into[0] = '\0';
	while (*pattern != '\0') {
		char byte[2] = {*pattern, '\0'};
		bool is_node = pattern[0] == '%' && pattern[1] == 'n';

		if (!text_append(into, size, is_node ? node : byte))
			return false;
		pattern += is_node ? 2 : 1;
	}
	return true;
}

void spool_name(char into[SPOOL_NAME_MAX], uint32_t job_id, const char *life, uid_t uid, const char *suffix)
{
	snprintf(into, SPOOL_NAME_MAX, "%" PRIu32 ".%s.%lu%s", job_id, life, (unsigned long)uid, suffix);
}

bool spool_name_parse(const char *file, const char *suffix, struct spool_name *name)
{
	char copy[SPOOL_NAME_MAX];
	size_t length = strlen(file), ending = strlen(suffix);
	char *life, *uid;

	if (length <= ending || strcmp(file + length - ending, suffix) != 0 || !text_copy(copy, sizeof(copy), file))
		return false;
	copy[length - ending] = '\0';
	life = strchr(copy, '.');
	if (life == NULL)
		return false;
	*life++ = '\0';
	uid = strchr(life, '.');
	if (uid == NULL)
		return false;
	*uid++ = '\0';
	return text_to_number(copy, 0, UINT32_MAX, &name->job_id) &&
	       text_to_number(uid, 0, UINT32_MAX - 1, &name->uid) && life_is_well_formed(life) &&
	       text_copy(name->life, sizeof(name->life), life);
}

int spool_open(const char *path, bool make)
{
	struct stat found;
	bool made = make && mkdir(path, 0755) == 0;
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return -1;
	if (made)
		fchmod(folder, 0755); /* whatever umask the job has */
	/* A folder in which somebody else can put files is no place for root to write. */
	if (fstat(folder, &found) < 0 || found.st_uid != geteuid() || (found.st_mode & 022) != 0) {
		close(folder);
		errno = EPERM;
		return -1;
	}
	return folder;
}

int spool_open_notes(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd >= 0)
		fchmod(fd, 0644); /* the user's child reads it */
	return fd;
}

static bool put(int folder, const char *name, const char *bytes, size_t length)
{
	char unfinished[SPOOL_NAME_MAX + 24];
	int fd, error = 0;

	/* Another step of the job may be at it too. */
	snprintf(unfinished, sizeof(unfinished), ".%s.%ld.tmp", name, (long)getpid());
	fd = openat(folder, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	errno = ENOSPC;
	if (write(fd, bytes, length) != (ssize_t)length)
		error = errno;
	fchmod(fd, 0644);
	close(fd);
	if (error == 0 && renameat(folder, unfinished, folder, name) == 0)
		return true;
	error = error != 0 ? error : errno;
	unlinkat(folder, unfinished, 0);
	errno = error;
	return false;
}

bool spool_remember_run(int folder, const char *name, const char *run, const struct user *user)
{
	size_t size = strlen(run) + 16 + 12 * ((size_t)user->group_count + 1);
	char *text = malloc(size);
	int length;
	bool done;

	if (text == NULL)
		return false;
	length = snprintf(text, size, "%s\ngroups %lu", run, (unsigned long)user->gid);
	for (int i = 0; i < user->group_count; i++)
		length += snprintf(text + length, size - (size_t)length, " %lu", (unsigned long)user->groups[i]);
	length += snprintf(text + length, size - (size_t)length, "\n");
	done = put(folder, name, text, (size_t)length);
	free(text);
	return done;
}

static bool parse_groups(char *line, struct spool_run *into)
{
	char *rest = NULL, *word = strtok_r(line, " \n", &rest);
	uint32_t number;

	if (word == NULL || strcmp(word, "groups") != 0)
		return false;
	into->group_count = -1; /* the first is the primary one */
	while ((word = strtok_r(NULL, " \n", &rest)) != NULL) {
		gid_t *more;

		if (!text_to_number(word, 0, UINT32_MAX - 1, &number))
			return false;
		if (into->group_count++ < 0) {
			into->gid = number;
			continue;
		}
		more = realloc(into->groups, (size_t)into->group_count * sizeof(*more));
		if (more == NULL)
			return false;
		into->groups = more;
		into->groups[into->group_count - 1] = number;
	}
	return into->group_count >= 0;
}

bool spool_recall_run(int folder, const char *name, struct spool_run *into)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;
	bool good = false;

	memset(into, 0, sizeof(*into));
	if (file == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		good = text_is_absolute_path(line) && text_copy(into->run, sizeof(into->run), line);
	}
	good = good && getline(&line, &size, file) > 0 && parse_groups(line, into);
	free(line);
	fclose(file);
	if (!good) {
		free(into->groups);
		into->groups = NULL;
	}
	return good;
}

/* JOBID.health is the health gate's. */
static bool is_ours(const char *name)
{
	struct spool_name parsed;
	char copy[SPOOL_NAME_MAX];
	uint32_t job_id;
	char *dot;

	size_t length = strlen(name);

	if (spool_name_parse(name, ".jsonl", &parsed) || spool_name_parse(name, ".run", &parsed))
		return true;
	if (name[0] == '.' && length > 4 && strcmp(name + length - 4, ".tmp") == 0)
		return true; /* somebody died while writing */
	if (!text_copy(copy, sizeof(copy), name) || (dot = strchr(copy, '.')) == NULL ||
	    (strcmp(dot, ".health") != 0 && strcmp(dot, ".health.unfinished") != 0))
		return false;
	*dot = '\0';
	return text_to_number(copy, 0, UINT32_MAX, &job_id);
}

void spool_sweep(int folder, int keep_days)
{
	time_t oldest = time(NULL) - (time_t)keep_days * 86400;
	int listing = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = listing < 0 ? NULL : fdopendir(listing);
	struct dirent *entry;
	struct stat found;

	if (entries == NULL) {
		if (listing >= 0)
			close(listing);
		return;
	}
	while ((entry = readdir(entries)) != NULL)
		if (is_ours(entry->d_name) && fstatat(folder, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(found.st_mode) && found.st_mtime < oldest)
			unlinkat(folder, entry->d_name, 0);
	closedir(entries);
}
