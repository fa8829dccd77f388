/* What NUL-separated words the arguments may be: none may harm the parser, and what it takes is what it promises. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../relay/arguments.h"

#define MOST_WORDS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold_promises(const struct arguments *got)
{
	if (got->parent[0] != '/' || strlen(got->parent) >= PATH_MAX || !arguments_is_life(got->life))
		abort();
	if (got->run != NULL && (got->run[0] != '/' || strlen(got->run) >= PATH_MAX))
		abort();
	if (got->local_tasks < 1 || got->local_tasks > 4096 || got->step > 0xffffffefU)
		abort();
	if (!(got->kill_wait_s >= 0 && got->kill_wait_s <= 604800) || !(got->lead_s >= -1 && got->lead_s <= 604800))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arguments got;
	char *words[MOST_WORDS];
	char error[64]; /* smaller than some words */
	char *text = malloc(size + 1);
	int count = 0;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t at = 0; at <= size && count < MOST_WORDS; at += strlen(text + at) + 1)
		words[count++] = text + at;
	memset(error, 0x55, sizeof(error));
	if (arguments_parse(count, words, &got, error, sizeof(error)))
		hold_promises(&got);
	else if (memchr(error, '\0', sizeof(error)) == NULL || error[0] == '\0')
		abort();
	free(text);
	return 0;
}
