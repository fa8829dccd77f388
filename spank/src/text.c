#include "text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool text_to_number(const char *text, uint32_t least, uint32_t most, uint32_t *number)
{
	uint64_t value = 0;

	if (text == NULL || *text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > most)
			return false;
	}
	if (value < least)
		return false;
	*number = (uint32_t)value;
	return true;
}

bool text_is_path(const char *text)
{
	size_t length = 0;

	if (text == NULL)
		return false;
	for (const unsigned char *byte = (const unsigned char *)text; *byte != '\0'; byte++, length++)
		if (*byte < 0x20 || *byte == 0x7f || length >= PATH_MAX - 1)
			return false;
	return length > 0;
}

bool text_is_absolute_path(const char *text)
{
	return text_is_path(text) && text[0] == '/';
}

bool text_copy(char *into, size_t size, const char *text)
{
	into[0] = '\0';
	return text_append(into, size, text);
}

bool text_append(char *into, size_t size, const char *text)
{
	size_t used = strlen(into), more = strlen(text);

	if (more >= size - used)
		return false;
	memcpy(into + used, text, more + 1);
	return true;
}

bool text_join(char *into, size_t size, const char *folder, const char *name)
{
	if (text_copy(into, size, folder) && text_append(into, size, "/") && text_append(into, size, name))
		return true;
	into[0] = '\0';
	return false;
}

/* How many bytes of UTF-8 begin here; 0: none that is well-formed. */
static size_t sequence_length(const unsigned char *at)
{
	size_t length = at[0] < 0x80   ? 1
			: at[0] < 0xc2 ? 0
			: at[0] < 0xe0 ? 2
			: at[0] < 0xf0 ? 3
			: at[0] < 0xf5 ? 4
				       : 0;

	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80) /* the end of the text too */
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] > 0x8f))
		return 0; /* too long a form, a surrogate, or beyond Unicode */
	return length;
}

bool text_append_json(char *into, size_t size, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	bool fits = text_append(into, size, "\"");

	while (fits && *at != '\0') {
		char piece[8] = "";
		size_t length = sequence_length(at);

		if (*at == '"' || *at == '\\')
			snprintf(piece, sizeof(piece), "\\%c", *at);
		else if (*at < 0x20 || *at == 0x7f)
			snprintf(piece, sizeof(piece), "\\u%04x", (unsigned)*at);
		else if (length == 0)
			snprintf(piece, sizeof(piece), "?");
		else
			memcpy(piece, at, length);
		at += length == 0 ? 1 : length;
		fits = text_append(into, size, piece);
	}
	return fits && text_append(into, size, "\"");
}
