#include "fake_spank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLES_MAX 64
#define OPTIONS_MAX 8

struct fake_job fake_job;
spank_context_t fake_context;
char fake_logged[65536];

static struct {
	char name[64];
	char *value;
} variables[VARIABLES_MAX];
static struct spank_option *options[OPTIONS_MAX];

void fake_reset(void)
{
	for (int i = 0; i < VARIABLES_MAX; i++) {
		free(variables[i].value);
		variables[i].value = NULL;
	}
	fake_logged[0] = '\0';
	fake_context = S_CTX_REMOTE;
	fake_job = (struct fake_job){.job_id = 77, .local_tasks = 1, .uid = getuid(), .gid = getgid()};
}

void fake_set(const char *name, const char *value)
{
	int empty = -1;

	for (int i = 0; i < VARIABLES_MAX; i++) {
		if (variables[i].value == NULL) {
			empty = i;
			continue;
		}
		if (strcmp(variables[i].name, name) != 0)
			continue;
		free(variables[i].value);
		variables[i].value = value == NULL ? NULL : strdup(value);
		return;
	}
	if (value == NULL || empty < 0)
		return;
	snprintf(variables[empty].name, sizeof(variables[empty].name), "%s", name);
	variables[empty].value = strdup(value);
}

const char *fake_get(const char *name)
{
	for (int i = 0; i < VARIABLES_MAX; i++)
		if (variables[i].value != NULL && strcmp(variables[i].name, name) == 0)
			return variables[i].value;
	return NULL;
}

int fake_option(const char *name, const char *value, int remote)
{
	for (int i = 0; i < OPTIONS_MAX; i++)
		if (options[i] != NULL && strcmp(options[i]->name, name) == 0)
			return options[i]->cb(options[i]->val, value, remote);
	return -2;
}

spank_context_t spank_context(void)
{
	return fake_context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	(void)spank;
	for (int i = 0; i < OPTIONS_MAX; i++)
		if (options[i] == NULL || strcmp(options[i]->name, option->name) == 0) {
			options[i] = option;
			return ESPANK_SUCCESS;
		}
	return ESPANK_NOSPACE;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	static gid_t groups[] = {0};
	spank_err_t answer = ESPANK_SUCCESS;
	va_list arguments;

	(void)spank;
	if (fake_job.unknown)
		return ESPANK_NOT_AVAIL;
	va_start(arguments, item);
	switch (item) {
	case S_JOB_ID:
		*va_arg(arguments, uint32_t *) = fake_job.job_id;
		break;
	case S_JOB_STEPID:
		*va_arg(arguments, uint32_t *) = fake_job.step_id;
		break;
	case S_JOB_NODEID:
		*va_arg(arguments, uint32_t *) = fake_job.node_id;
		break;
	case S_JOB_LOCAL_TASK_COUNT:
		*va_arg(arguments, uint32_t *) = fake_job.local_tasks;
		break;
	case S_JOB_UID:
		*va_arg(arguments, uid_t *) = fake_job.uid;
		break;
	case S_JOB_GID:
		*va_arg(arguments, gid_t *) = fake_job.gid;
		break;
	case S_JOB_SUPPLEMENTARY_GIDS:
		groups[0] = fake_job.gid;
		*va_arg(arguments, gid_t **) = groups;
		*va_arg(arguments, int *) = 1;
		break;
	case S_TASK_ID:
		*va_arg(arguments, int *) = fake_job.task_id;
		break;
	case S_TASK_GLOBAL_ID:
		*va_arg(arguments, uint32_t *) = fake_job.global_id;
		break;
	case S_TASK_PID:
		*va_arg(arguments, pid_t *) = fake_job.pid;
		break;
	case S_TASK_EXIT_STATUS:
		*va_arg(arguments, int *) = fake_job.status;
		break;
	default:
		answer = ESPANK_BAD_ARG;
	}
	va_end(arguments);
	return answer;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *into, int size)
{
	const char *value = fake_get(name);

	(void)spank;
	if (value == NULL)
		return ESPANK_ENV_NOEXIST;
	return snprintf(into, (size_t)size, "%s", value) < size ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	(void)spank;
	if (!overwrite && fake_get(name) != NULL)
		return ESPANK_ENV_EXISTS;
	fake_set(name, value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
	(void)spank;
	fake_set(name, NULL);
	return ESPANK_SUCCESS;
}

static void keep(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

static void keep(const char *format, va_list arguments)
{
	size_t used = strlen(fake_logged);

	vsnprintf(fake_logged + used, sizeof(fake_logged) - used, format, arguments);
	used = strlen(fake_logged);
	if (used < sizeof(fake_logged) - 1) {
		fake_logged[used] = '\n';
		fake_logged[used + 1] = '\0';
	}
}

void slurm_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	keep(format, arguments);
	va_end(arguments);
}

void slurm_spank_log(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	keep(format, arguments);
	va_end(arguments);
}
