/* Where the plugin's own errors go: Slurm's log, and with it, once a step's output is connected, the user's stderr. */
#ifndef RESILIENCE_LOG_H
#define RESILIENCE_LOG_H

void resilience_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
