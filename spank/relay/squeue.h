#ifndef RELAY_SQUEUE_H
#define RELAY_SQUEUE_H

#define SQUEUE_MISSING 127

/* An errand's work: become `squeue`, asked for the end of the job (its number, as Slurm's commands name it). */
int squeue_ask(const void *job);

#endif
