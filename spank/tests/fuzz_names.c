/* Names of spool files and lives, and JSON of whatever bytes: root reads the one in a folder, and writes the other. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spool.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold_json(const char *json)
{
	size_t length = strlen(json);

	if (length < 2 || json[0] != '"' || json[length - 1] != '"')
		abort();
	for (size_t i = 1; i < length - 1; i++) {
		if ((unsigned char)json[i] < 0x20 || json[i] == '"')
			abort();
		if (json[i] == '\\' && ++i >= length - 1)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *json = malloc(size * 6 + 3), again[SPOOL_NAME_MAX];
	struct spool_name name;
	struct spool_name copy;

	if (text == NULL || json == NULL)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	if (spool_name_parse(text, ".jsonl", &name)) {
		if (strchr(name.life, '/') != NULL)
			abort();
		spool_name(again, name.job_id, name.life, name.uid, ".jsonl");
		if (!spool_name_parse(again, ".jsonl", &copy) || copy.job_id != name.job_id || copy.uid != name.uid ||
		    strcmp(copy.life, name.life) != 0)
			abort();
	}
	json[0] = '\0';
	if (!text_append_json(json, size * 6 + 3, text))
		abort();
	hold_json(json);
	free(text);
	free(json);
	return 0;
}
