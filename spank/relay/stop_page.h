#ifndef RELAY_STOP_PAGE_H
#define RELAY_STOP_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "stop_request.h"

/* The format of slurm_resilience/signals/runtime_folder.py, which reads it while we write. */
#define STOP_PAGE_BYTES 4096
#define STOP_PAGE_USED_BYTES 232

/* Pure. */
void stop_page_encode(const struct stop_request *request, uint8_t bytes[STOP_PAGE_USED_BYTES]);

/* Into the page that is open as `fd`. False: errno says why. */
bool stop_page_write(int fd, const struct stop_request *request);

#endif
