#ifndef RELAY_TREE_H
#define RELAY_TREE_H

#include <stdbool.h>

/*
 * Remove the folder `name` in the open folder `parent` and all that is in it; `last` goes last of the files at its
 * top. Links are removed, never followed. False: something stayed; errno says why.
 */
bool tree_remove(int parent, const char *name, const char *last);

#endif
