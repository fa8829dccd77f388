#include "life.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

void life_from(struct life *life, uint32_t job_id, const char *restart_count, const char *array_job,
	       const char *array_task)
{
	uint32_t array, task;

	if (text_to_number(array_job, 1, UINT32_MAX, &array) && text_to_number(array_task, 0, UINT32_MAX, &task))
		snprintf(life->job, sizeof(life->job), "%" PRIu32 "_%" PRIu32, array, task);
	else
		snprintf(life->job, sizeof(life->job), "%" PRIu32, job_id);
	life->restart = 0;
	text_to_number(restart_count, 0, UINT32_MAX, &life->restart);
	snprintf(life->text, sizeof(life->text), "%s-%" PRIu32, life->job, life->restart);
}

bool life_is_of_same_job(const struct life *life, const char *name, uint32_t *restart)
{
	size_t length = strlen(life->job);

	return strncmp(name, life->job, length) == 0 && name[length] == '-' &&
	       text_to_number(name + length + 1, 0, UINT32_MAX, restart);
}

bool life_is_well_formed(const char *text)
{
	char copy[LIFE_TEXT_MAX];
	uint32_t number;
	char *restart, *task;

	if (!text_copy(copy, sizeof(copy), text))
		return false;
	restart = strchr(copy, '-');
	if (restart == NULL)
		return false;
	*restart++ = '\0';
	task = strchr(copy, '_');
	if (task != NULL)
		*task++ = '\0';
	return text_to_number(copy, 0, UINT32_MAX, &number) && text_to_number(restart, 0, UINT32_MAX, &number) &&
	       (task == NULL || text_to_number(task, 0, UINT32_MAX, &number));
}
