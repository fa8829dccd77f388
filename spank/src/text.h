/* Small pure things about text: numbers, paths, JSON. */
#ifndef RESILIENCE_TEXT_H
#define RESILIENCE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits only, no sign, no blank, least <= number <= most. */
bool text_to_number(const char *text, uint32_t least, uint32_t most, uint32_t *number);

/* Not empty, no control characters, shorter than PATH_MAX. */
bool text_is_path(const char *text);
bool text_is_absolute_path(const char *text);

/* False where it doesn't fit; `into` holds an empty string then. */
bool text_copy(char *into, size_t size, const char *text);
bool text_join(char *into, size_t size, const char *folder, const char *name);

/* Appends `text` as a JSON string with its quotes; false where it doesn't fit. What is no UTF-8 becomes '?'. */
bool text_append_json(char *into, size_t size, const char *text);
bool text_append(char *into, size_t size, const char *text);

#endif
