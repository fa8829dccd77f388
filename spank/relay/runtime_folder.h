#ifndef RELAY_RUNTIME_FOLDER_H
#define RELAY_RUNTIME_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The node's runtime folder, as slurm_resilience/agent/runtime.py makes it. */
struct runtime_folder {
	char path[PATH_MAX];
	char name[NAME_MAX + 1];
	int parent; /* descriptors, -1 where there is none */
	int fd;
	int stop; /* its page */
};

/*
 * Make it, mode 700, with its pages reserved: one first written while /dev/shm is full (DataLoader workers fill it)
 * would kill its writer by SIGBUS. What others of this user's left behind is removed first. False: it was said why, and
 * nothing is left.
 */
bool runtime_folder_make(struct runtime_folder *folder, const char *parent, const char *name, unsigned local_tasks);

/* May be called where nothing was made. */
void runtime_folder_remove(struct runtime_folder *folder);

/* A small file in it, replaced as a whole. False: errno says why. */
bool runtime_folder_put(const struct runtime_folder *folder, const char *name, const char *bytes, size_t length);

/* The run directory that the training library left in the file `run`. False: none, or none that can be believed. */
bool runtime_folder_run(const struct runtime_folder *folder, char *run, size_t size);

#endif
