#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

#define INITIAL_PID_NAMESPACE 0xeffffffcULL /* the kernel's PROC_PID_INIT_INO: every process outside containers */
#define MOST_PID 4194304LL

static bool read_boot_id(char *into, size_t size)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, into, size - 1);
	close(fd);
	if (length <= 0)
		return false;
	into[length] = '\0';
	into[strcspn(into, "\n")] = '\0';
	return true;
}

bool identity_of_this_process(struct identity *identity)
{
	struct stat namespace;

	*identity = (struct identity){ .pid = getpid() };
	if (gethostname(identity->host, sizeof(identity->host) - 1) < 0 ||
	    !read_boot_id(identity->boot_id, sizeof(identity->boot_id)) || stat("/proc/self/ns/pid", &namespace) < 0)
		return false;
	identity->pid_namespace = namespace.st_ino;
	errno = ESRCH;
	return process_started(getpid(), &identity->started_ticks) == PROCESS_SEEN;
}

static const char *behind_blanks(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* A string without escapes; NULL: there is none. */
static const char *parse_string(const char *at, char *into, size_t size)
{
	size_t length;

	if (*at++ != '"')
		return NULL;
	length = strcspn(at, "\"\\");
	if (at[length] != '"' || length >= size)
		return NULL;
	memcpy(into, at, length);
	into[length] = '\0';
	return at + length + 1;
}

static const char *parse_count(const char *at, unsigned long long *number)
{
	char *behind;

	if (*at < '0' || *at > '9')
		return NULL;
	errno = 0;
	*number = strtoull(at, &behind, 10);
	return errno == 0 ? behind : NULL;
}

static const char *parse_member(const char *at, struct identity *identity)
{
	char key[32];
	unsigned long long number = 0;
	bool is_pid;

	at = parse_string(at, key, sizeof(key));
	if (at == NULL)
		return NULL;
	at = behind_blanks(at);
	if (*at != ':')
		return NULL;
	at = behind_blanks(at + 1);
	if (strcmp(key, "host") == 0)
		return parse_string(at, identity->host, sizeof(identity->host));
	if (strcmp(key, "boot_id") == 0)
		return parse_string(at, identity->boot_id, sizeof(identity->boot_id));
	if (strcmp(key, "pid_namespace") == 0)
		return strncmp(at, "null", 4) == 0 ? at + 4 : parse_count(at, &identity->pid_namespace);
	if (strcmp(key, "started_ticks") == 0)
		return parse_count(at, &identity->started_ticks);
	is_pid = strcmp(key, "pid") == 0;
	at = is_pid ? parse_count(at, &number) : NULL; /* what another version writes is for that one to judge */
	identity->pid = (long long)number;
	return at;
}

bool identity_from_json(const char *text, struct identity *identity)
{
	const char *at = behind_blanks(text);

	*identity = (struct identity){ 0 };
	if (*at != '{')
		return false;
	do {
		at = parse_member(behind_blanks(at + 1), identity);
		if (at == NULL)
			return false;
		at = behind_blanks(at);
	} while (*at == ',');
	return *at == '}' && *behind_blanks(at + 1) == '\0' && identity->host[0] != '\0' &&
	       identity->boot_id[0] != '\0' && identity->pid > 0 && identity->pid <= MOST_PID &&
	       identity->started_ticks > 0;
}

/* A host's name holds nothing that JSON escapes; whoever set one that does gets it without. */
static void tame(const char *name, char *into, size_t size)
{
	size_t length = 0;

	for (; *name != '\0' && length < size - 1; name++)
		if ((unsigned char)*name >= ' ' && *name != '"' && *name != '\\')
			into[length++] = *name;
	into[length] = '\0';
}

int identity_to_json(const struct identity *identity, char *into, size_t size)
{
	char host[sizeof(identity->host)];

	tame(identity->host, host, sizeof(host));
	return snprintf(into, size,
			"{\"host\": \"%s\", \"boot_id\": \"%s\", \"pid\": %lld, \"started_ticks\": %llu, "
			"\"pid_namespace\": %llu}",
			host, identity->boot_id, identity->pid, identity->started_ticks, identity->pid_namespace);
}

enum identity_liveness identity_liveness(const struct identity *identity, const struct identity *here)
{
	unsigned long long ticks = 0;
	enum process_sight sight;

	if (strcmp(identity->host, here->host) != 0)
		return IDENTITY_UNKNOWN;
	if (strcmp(identity->boot_id, here->boot_id) != 0) /* a host that came up again has lost all its processes */
		return strncmp(identity->host, "localhost", 9) == 0 ? IDENTITY_UNKNOWN : IDENTITY_GONE;
	if (identity->pid_namespace != 0 && identity->pid_namespace != here->pid_namespace)
		return IDENTITY_UNKNOWN;
	sight = process_started((pid_t)identity->pid, &ticks);
	if (sight == PROCESS_HIDDEN)
		return IDENTITY_UNKNOWN;
	if (sight == PROCESS_SEEN && ticks == identity->started_ticks)
		return IDENTITY_ALIVE;
	if (identity->pid_namespace == 0 && here->pid_namespace != INITIAL_PID_NAMESPACE)
		return IDENTITY_UNKNOWN; /* it may have been counted outside our container */
	return IDENTITY_GONE;
}
