#include <sys/wait.h>

#include "scene.h"
#include "told.h"

static struct step step;

static void begin(const char *findings, bool with_run)
{
	step = (struct step){.job_id = 79, .life = {.text = "79-0"}};
	snprintf(step.node, sizeof(step.node), "n1");
	snprintf(step.args.spool, sizeof(step.args.spool), "%s", in_scene("spool"));
	if (with_run)
		snprintf(step.run, sizeof(step.run), "%s", in_scene("run"));
	CHECK(mkdir(in_scene("spool"), 0755) == 0 && mkdir(in_scene("run"), 0755) == 0);
	if (findings != NULL)
		write_scene("spool/79.health", findings, 0644);
}

static const char *written(void)
{
	return read_path(in_scene("run/exit-notes/79-0/n1.health.json"));
}

static void of_a_healthy_node_nothing_is_told(void)
{
	begin(NULL, true);
	CHECK(told(&step, true) && fake_logged[0] == '\0' && written() == NULL);
}

static void a_warning_is_told_once_and_written_and_the_task_starts(void)
{
	begin("warn\ngpu: 3 \"rows\"\nclock: late\n", true);
	CHECK(told(&step, false) && fake_logged[0] == '\0' && written() == NULL);
	CHECK(told(&step, true));
	CHECK(strcmp(fake_logged,
		     "slurm-resilience: node n1: gpu: 3 \"rows\"\nslurm-resilience: node n1: clock: late\n") == 0);
	CHECK(strcmp(written(),
		     "{\"node\":\"n1\",\"mode\":\"warn\",\"findings\":[\"gpu: 3 \\\"rows\\\"\",\"clock: late\"]}\n") ==
	      0);
}

static void on_a_node_to_be_left_out_no_task_starts(void)
{
	begin("exclude\ngpu: gone\n", true);
	CHECK(!told(&step, false) && fake_logged[0] == '\0');
	CHECK(!told(&step, true) && strstr(fake_logged, "no task starts here") != NULL);
	CHECK(strstr(written(), "\"mode\":\"exclude\"") != NULL);
}

static void where_nobody_would_read_it_the_task_starts_all_the_same(void)
{
	begin("exclude\ngpu: gone\n", false);
	CHECK(told(&step, true) && strstr(fake_logged, "gpu: gone") != NULL);
	snprintf(step.run, sizeof(step.run), "%s", in_scene("run"));
	step.id = 4294967291U; /* the batch script */
	CHECK(told(&step, true) && written() == NULL);
}

static void a_run_directory_that_takes_nothing_is_said(void)
{
	begin("warn\ngpu: gone\n", true);
	write_scene("run/exit-notes", "a file", 0644);
	CHECK(told(&step, true) && strstr(fake_logged, "can't be written into") != NULL);
}

int main(void)
{
	RUN(of_a_healthy_node_nothing_is_told);
	RUN(a_warning_is_told_once_and_written_and_the_task_starts);
	RUN(on_a_node_to_be_left_out_no_task_starts);
	RUN(where_nobody_would_read_it_the_task_starts_all_the_same);
	RUN(a_run_directory_that_takes_nothing_is_said);
	return 0;
}
