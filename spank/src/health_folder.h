/* The folder of the health gate's checks: which of its files root may run. */
#ifndef RESILIENCE_HEALTH_FOLDER_H
#define RESILIENCE_HEALTH_FOLDER_H

#include "health_check.h"

#define HEALTH_CHECKS_MAX 64

/*
 * Fills in name and path of the checks, in the order of their names, and returns how many there are.
 * What could be changed by anybody but root is not run, and the reason is logged; so is a folder that can't be read.
 */
size_t health_folder_list(const char *directory, struct health_check checks[HEALTH_CHECKS_MAX]);

#endif
