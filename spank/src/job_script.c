#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "contexts.h"
#include "fault.h"
#include "log.h"
#include "shipping.h"
#include "spool.h"
#include "step.h"
#include "text.h"
#include "user_child.h"

#define EPILOG_LIMIT_S 20

/* What is known of the job whose prolog or epilog this is. */
struct job {
	struct plugstack_args args;
	char node[256];
	uint32_t id;
};

/* Never an error: it would cost the node. */
static bool learn(struct job *job, spank_t spank, int count, char **words)
{
	char spool[PATH_MAX];

	memset(job, 0, sizeof(*job));
	plugstack_args_parse(count, words, &job->args, resilience_log_error);
	step_node_name(job->node, sizeof(job->node));
	text_copy(spool, sizeof(spool), job->args.spool);
	return spool_expand(spool, job->node, job->args.spool, sizeof(job->args.spool)) &&
	       spank_get_item(spank, S_JOB_ID, &job->id) == ESPANK_SUCCESS;
}

/* In a child: whatever becomes of it, neither prolog nor epilog fails or hangs, which would cost the node. */
static void do_apart(void (*work)(const struct job *), const struct job *job, int limit_s)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		work(job);
		_exit(0);
	}
	if (pid < 0) {
		resilience_log_error("no child can be started: %s", strerror(errno));
		return;
	}
	if (!child_reap(pid, limit_s * 1000, &status)) {
		resilience_log_error("job %u: not done within %d s, and given up", (unsigned)job->id, limit_s);
		kill(pid, SIGKILL);
		child_reap(pid, 1000, &status);
	}
}

static void run_gate(const struct job *job)
{
	struct health_settings settings = {.mode = job->args.health,
					   .directory = job->args.health_directory,
					   .timeout_s = job->args.health_timeout_s,
					   .spool = job->args.spool};
	int spool;

	if (fault_at(&job->args, "job_prolog")) {
		resilience_log_error("the health gate lets job %u pass", (unsigned)job->id);
		return;
	}
	/* The gate wants it there, and nobody else may change what is in it. */
	spool = spool_open(job->args.spool, true);
	if (spool < 0) {
		resilience_log_error("the health gate lets job %u pass: what it finds can't be kept in %s: %s",
				     (unsigned)job->id, job->args.spool, strerror(errno));
		return;
	}
	close(spool);
	health_gate_run(&settings, job->id);
}

int script_prolog(spank_t spank, int count, char **words)
{
	static struct job job; /* large */

	if (!learn(&job, spank, count, words))
		resilience_log_error("the health gate doesn't know its job, and lets it pass");
	else if (job.args.health != HEALTH_OFF || HAS_FAULTS)
		do_apart(run_gate, &job, job.args.health_timeout_s + 10);
	return ESPANK_SUCCESS;
}

static void ship_one(const struct job *job, int spool, const char *notes, const struct spool_name *name)
{
	char run_file[SPOOL_NAME_MAX], run[PATH_MAX], why[PATH_MAX + 256];
	struct shipment shipment = {.spool = spool,
				    .notes = notes,
				    .life = name->life,
				    .node = job->node,
				    .relay_folder = "",
				    .remove = true,
				    .run_file = run_file};
	struct spool_run goal;
	struct user user;

	spool_name(run_file, name->job_id, name->life, name->uid, ".run");
	if (!spool_recall_run(spool, run_file, &goal))
		return; /* no run directory was ever known: they stay, for an admin to look at */
	shipment.run = goal.run;
	user = (struct user){.uid = name->uid, .gid = goal.gid, .groups = goal.groups, .group_count = goal.group_count};
	if (ship(&shipment, &user, run, why, sizeof(why)) == SHIPPING_FAILED)
		resilience_log_error("the exit notes of job %s on node %s stay in %s: %s", name->life, job->node,
				     job->args.spool, why);
	free(goal.groups);
}

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void ship_all(const struct job *job, int spool)
{
	time_t began_s = now_s();
	int listing = openat(spool, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = listing < 0 ? NULL : fdopendir(listing);
	struct dirent *entry;
	struct spool_name name;

	if (entries == NULL) {
		if (listing >= 0)
			close(listing);
		return;
	}
	while ((entry = readdir(entries)) != NULL) {
		if (!spool_name_parse(entry->d_name, ".jsonl", &name) || name.job_id != job->id)
			continue;
		/* Every life of the job that could not be brought is here, and a long epilog costs the node. */
		if (now_s() - began_s >= SHIPPING_LIMIT_S) {
			resilience_log_error(
			    "more exit notes of job %u on node %s stay in %s: the others took too long",
			    (unsigned)job->id, job->node, job->args.spool);
			break;
		}
		ship_one(job, spool, entry->d_name, &name);
	}
	closedir(entries);
}

static void tidy_up(const struct job *job)
{
	int spool;

	if (fault_at(&job->args, "job_epilog")) {
		resilience_log_error("the exit notes of job %u stay in the spool", (unsigned)job->id);
		return;
	}
	spool = spool_open(job->args.spool, false);
	if (spool < 0)
		return; /* no job with --resilient was ever here */
	ship_all(job, spool);
	health_findings_forget(job->args.spool, job->id);
	spool_sweep(spool, job->args.notes_keep_days);
	close(spool);
}

int script_epilog(spank_t spank, int count, char **words)
{
	static struct job job; /* large */

	if (!learn(&job, spank, count, words))
		resilience_log_error("the epilog doesn't know its job: exit notes stay in the spool");
	else
		do_apart(tidy_up, &job, EPILOG_LIMIT_S);
	return ESPANK_SUCCESS;
}
