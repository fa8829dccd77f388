/* The relay's arguments: what is taken, and that what is refused is named. */
#include <string.h>

#include "../relay/arguments.h"
#include "relay_test.h"

#define NEEDED "--runtime=/dev/shm", "--job=123-0", "--local-tasks=4"
#define PARSE(...)                                                                                                  \
	arguments_parse((int)(sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)), (char *[]){ __VA_ARGS__ }, &got, \
			error, sizeof(error))

static struct arguments got;
static char error[256];

static void what_is_given_is_taken(void)
{
	CHECK(PARSE(NEEDED, "--step=3", "--node-id=2", "--kill-wait=60", "--lead=120", "--run=/shared/a b", "--node=n3",
		    "--ask-slurm"));
	CHECK(strcmp(got.parent, "/dev/shm") == 0);
	CHECK(strcmp(got.life, "123-0") == 0);
	CHECK(strcmp(got.run, "/shared/a b") == 0);
	CHECK(strcmp(got.node, "n3") == 0);
	CHECK(got.step == 3 && got.node_id == 2 && got.local_tasks == 4);
	CHECK(got.kill_wait_s == 60.0 && got.lead_s == 120.0 && got.ask_slurm);
}

static void what_is_not_given_has_a_default(void)
{
	CHECK(PARSE(NEEDED));
	CHECK(got.step == 0 && got.node_id == 0 && got.kill_wait_s == 30.0);
	CHECK(got.lead_s < 0 && got.run == NULL && got.node == NULL && !got.ask_slurm);
	CHECK(PARSE(NEEDED, "--lead=0") && got.lead_s == 0.0);
}

static void what_must_be_given_is_asked_for(void)
{
	CHECK(!PARSE("--job=1-0", "--local-tasks=1") && strcmp(error, "--runtime: is missing") == 0);
	CHECK(!PARSE("--runtime=/tmp", "--local-tasks=1") && strcmp(error, "--job: is missing") == 0);
	CHECK(!PARSE("--runtime=/tmp", "--job=1-0") && strcmp(error, "--local-tasks: is missing") == 0);
}

static void a_bad_word_is_refused_and_named(void)
{
	static char *const bad[] = {
		"--runtime=shm",
		"--runtime=",
		"--runtime=/a\nb",
		"--run=here",
		"--run=",
		"--step=",
		"--step=-1",
		"--step=1x",
		"--step=4294967291",
		"--step=99999999999999999999",
		"--node-id=x",
		"--local-tasks=0",
		"--local-tasks=4097",
		"--kill-wait=1.5",
		"--kill-wait=604801",
		"--lead=-1",
		"--lead=604801",
		"--lead= 5",
		"--job=",
		"--job=1",
		"--job=1-",
		"--job=-0",
		"--job=1_-0",
		"--job=_1-0",
		"--job=1-0-0",
		"--job=1-0/..",
		"--job=x-0",
		"--job=--all-0",
		"--node=",
		"--node=a b",
		"--node=../n",
		"--ask-slurm=1",
		"--ask-slur",
		"--unknown=1",
		"",
		"ask-slurm",
		"--",
		"--runtime",
		"--stepp=1",
		"--ste=1",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char start[64];

		CHECK(!PARSE(NEEDED, bad[i]));
		snprintf(start, sizeof(start), "%s: ", bad[i]);
		CHECK(strncmp(error, start, strlen(start)) == 0);
	}
}

static void a_path_that_no_system_call_takes_is_refused(void)
{
	static char long_word[5000];

	memset(long_word, 'a', sizeof(long_word) - 1);
	memcpy(long_word, "--run=/", 7);
	CHECK(!PARSE(NEEDED, long_word));
	CHECK(strlen(error) < sizeof(error) - 1);
}

static void a_life_is_a_job_and_its_restart_count(void)
{
	CHECK(arguments_is_life("123-0") && arguments_is_life("77_4-2") && arguments_is_life("1-12"));
	CHECK(!arguments_is_life("77_4_1-2") && !arguments_is_life("1-2 ") && !arguments_is_life(" 1-2"));
	CHECK(!arguments_is_life("1111111111111111111111111111111111111111111111111111111111111111-0"));
}

int main(void)
{
	what_is_given_is_taken();
	what_is_not_given_has_a_default();
	what_must_be_given_is_asked_for();
	a_bad_word_is_refused_and_named();
	a_path_that_no_system_call_takes_is_refused();
	a_life_is_a_job_and_its_restart_count();
	return relay_test_end();
}
