/* Whatever words an admin writes: all have a meaning afterwards, and each that has none is complained of once. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugstack_args.h"
#include "text.h"

#define WORDS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int complaints;

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *format, ...)
{
	char sentence[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	if (sentence[0] == '\0')
		abort();
	complaints++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct plugstack_args args;
	char *words[WORDS_MAX], *text = malloc(size + 1);
	int count = 0;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t at = 0; at <= size && count < WORDS_MAX; at += strlen(text + at) + 1)
		words[count++] = text + at;
	complaints = 0;
	plugstack_args_parse(count, words, &args, complain);
	if (complaints > count || !text_is_absolute_path(args.spool) || !text_is_absolute_path(args.runtime) ||
	    !text_is_absolute_path(args.health_directory) || (args.relay[0] != '\0' && args.relay[0] != '/'))
		abort();
	if (args.health_timeout_s < 1 || args.health_timeout_s > 300 || args.kill_wait_s < 0 ||
	    args.notes_keep_days < 1)
		abort();
	free(text);
	return 0;
}
