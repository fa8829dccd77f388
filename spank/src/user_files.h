/* What is done in a user's folders, always as the user. Each returns 0 or an errno. */
#ifndef RESILIENCE_USER_FILES_H
#define RESILIENCE_USER_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* RUN/exit-notes/LIFE. RUN itself is only made where `make_run` says so. */
int user_files_make_life(const char *run, const char *life, bool make_run);

/* All that is left of `from` into `folder`/`name`: whole, durable, or as it was. From a string where `from` is -1. */
int user_files_replace(const char *folder, const char *name, int from, const char *text);

/* The first line of `folder`/`name`. */
int user_files_first_line(const char *folder, const char *name, char *into, size_t size);

/* A folder and the files in it; it has no folders. What isn't there is removed. */
int user_files_remove_folder(const char *folder);

#endif
