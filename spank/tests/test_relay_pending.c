/* Signals that wait at a process that blocks them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../relay/pending.h"
#include "../relay/ranks.h"
#include "relay_test.h"

#define STATUS(thread, process) \
	"Name:\tShdPnd:\nGroups:\t0 4 \nSigPnd:\t" thread "\nShdPnd:\t" process "\nSigBlk:\t0000000000000000\n"

static pending_set set;

static void both_sets_count(void)
{
	CHECK(pending_parse(STATUS("0000000000000000", "0000000000000000"), &set) && set == 0);
	CHECK(pending_parse(STATUS("0000000000000000", "0000000000004000"), &set));
	CHECK(pending_has(set, SIGTERM) && !pending_has(set, SIGUSR1));
	CHECK(pending_parse(STATUS("0000000000000200", "0000000000000800"), &set));
	CHECK(pending_has(set, SIGUSR1) && pending_has(set, SIGUSR2) && !pending_has(set, SIGTERM));
	CHECK(pending_parse(STATUS("ffffffffffffffff", "0"), &set) && pending_has(set, 64) && pending_has(set, 1));
}

static void a_text_that_does_not_say_is_no_answer(void)
{
	static const char *const bad[] = {
		"",
		"Name:\tpython\n",
		"SigPnd:\t0000000000004000\n",
		"ShdPnd:\t0000000000004000\n",
		STATUS("", "0000000000004000"),
		STATUS("xyz", "0000000000004000"),
		STATUS("00000000000000000", "0000000000004000"),
		"SigPnd:\t0000000000000000\nShdPnd:\t00000000",
		"Name:\tSigPnd:\t0000000000004000\nName:\tShdPnd:\t0000000000004000\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!pending_parse(bad[i], &set));
}

static void the_start_of_a_process_is_found_behind_any_name(void)
{
	static const char rest[] = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n";
	static const char dead[] = "Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n";
	char text[256];

	snprintf(text, sizeof(text), "12 (python) %s", rest);
	CHECK(process_parse_started(text) == 4711);
	snprintf(text, sizeof(text), "12 (a) b (c)) %s", rest);
	CHECK(process_parse_started(text) == 4711);
	snprintf(text, sizeof(text), "12 (python) %s", dead);
	CHECK(process_parse_started(text) == 0);
	CHECK(process_parse_started("") == 0);
	CHECK(process_parse_started("12 (python)") == 0);
	CHECK(process_parse_started("12 (python) S 1 2 3") == 0);
	CHECK(process_parse_started("12 (python) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x") == 0);
}

static void a_line_of_the_plugin_is_two_numbers(void)
{
	static const char *const bad[] = { "",	  "0",	  "0 ",	   " 0 12", "0  12", "4 12",  "0 12 ",	      "0 0",
					   "0 1", "0 -5", "-1 12", "a 12",  "0 1x",  "0\t12", "0 99999999999" };
	unsigned local_id = 9;
	pid_t pid = 0;

	CHECK(ranks_parse_line("3 4711", 4, &local_id, &pid) && local_id == 3 && pid == 4711);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!ranks_parse_line(bad[i], 4, &local_id, &pid));
}

static pid_t start_rank(void)
{
	sigset_t blocked, before;
	pid_t child;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	sigprocmask(SIG_SETMASK, &before, NULL);
	return child;
}

static void tell(struct ranks *ranks, unsigned local_id, pid_t pid)
{
	char line[64];
	size_t length = (size_t)snprintf(line, sizeof(line), "%u %ld\n", local_id, (long)pid);

	CHECK(ranks_take(ranks, line, 3) == 0); /* in two pieces */
	CHECK(ranks_take(ranks, line + 3, length - 3) == 0);
}

static void signals_of_ranks_are_seen_and_the_dead_are_forgotten(void)
{
	struct ranks ranks;
	struct ranks_found found;
	pid_t one = start_rank(), other = start_rank();

	CHECK(ranks_open(&ranks, 3));
	tell(&ranks, 0, one);
	tell(&ranks, 2, other);
	CHECK(ranks_look(&ranks).pid == 0);
	kill(one, SIGUSR1);
	found = ranks_look(&ranks);
	CHECK(found.pid == one && found.signal == SIGUSR1);
	kill(other, SIGTERM); /* it counts for more, though the other's is found first */
	found = ranks_look(&ranks);
	CHECK(found.pid == other && found.signal == SIGTERM);
	ranks.of[2].started++; /* as if the number were used again */
	found = ranks_look(&ranks);
	CHECK(found.pid == one && ranks.of[2].pid == 0);
	kill(one, SIGKILL);
	waitpid(one, NULL, 0);
	CHECK(ranks_look(&ranks).pid == 0 && ranks.of[0].pid == 0);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	tell(&ranks, 1, other); /* gone before we heard of it */
	CHECK(ranks.of[1].pid == 0);
	ranks_close(&ranks);
}

static void a_senseless_line_is_counted_and_costs_no_other(void)
{
	struct ranks ranks;
	static char endless[300];
	char line[64];
	size_t length = (size_t)snprintf(line, sizeof(line), "x\n\n0 %ld\n", (long)getpid());

	memset(endless, '1', sizeof(endless));
	endless[sizeof(endless) - 1] = '\n';
	CHECK(ranks_open(&ranks, 1));
	CHECK(ranks_take(&ranks, endless, sizeof(endless)) == 1);
	CHECK(ranks_take(&ranks, line, length) == 2);
	CHECK(ranks.of[0].pid == getpid() && ranks.of[0].started != 0);
	ranks_close(&ranks);
}

int main(void)
{
	both_sets_count();
	a_text_that_does_not_say_is_no_answer();
	the_start_of_a_process_is_found_behind_any_name();
	a_line_of_the_plugin_is_two_numbers();
	signals_of_ranks_are_seen_and_the_dead_are_forgotten();
	a_senseless_line_is_counted_and_costs_no_other();
	return relay_test_end();
}
