/* The end of the job's time: what is read, and what follows. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <string.h>
#include <time.h>

#include "../relay/end_of_time.h"
#include "relay_test.h"

#define YEAR_S (365.0 * 24 * 3600)

static double end_s;

static void squeue_names_the_end_in_either_form(void)
{
	setenv("TZ", "Europe/Berlin", 1);
	tzset();
	CHECK(end_of_squeue("1796026124\n", &end_s) == END_AT && end_s == 1796026124);
	CHECK(end_of_squeue("  1796026124  \n", &end_s) == END_AT && end_s == 1796026124);
	setenv("TZ", "UTC", 1);
	tzset();
	CHECK(end_of_squeue("2026-11-30T08:08:44\n", &end_s) == END_AT && end_s == 1796026124);
	setenv("TZ", "CET-1", 1);
	tzset();
	CHECK(end_of_squeue("2026-11-30T09:08:44", &end_s) == END_AT && end_s == 1796026124);
	CHECK(end_of_squeue("N/A\n1796026124\n", &end_s) == END_AT && end_s == 1796026124);
	CHECK(end_of_squeue("NONE\n", &end_s) == END_UNLIMITED);
}

static void what_makes_no_sense_is_no_answer(void)
{
	static const char *const bad[] = {
		"",
		"\n",
		"N/A\n",
		"Unknown\n",
		"0\n",
		"-5\n",
		"1e9\n",
		"nan\n",
		"inf\n",
		"08:08:44\n",
		"2026-11-30\n",
		"2026-13-30T08:08:44\n",
		"2026-11-30T08:08:4\n",
		"2026-11-30T08:08:44Z\n",
		"+2026-1-30T08:08:44\n",
		"99999999999999999999\n",
		"1796026124 x\n",
		"none\n",
		"slurm_load_jobs error: Invalid job id\n",
		"17960261241796026124179602612417960261241796026124179602612417960261241796026124\n"
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(end_of_squeue(bad[i], &end_s) == END_NO_ANSWER);
}

static void json_is_read_back_and_nonsense_refused(void)
{
	static const char *const bad[] = { "",
					   "{}",
					   "{\"end_s\": }",
					   "{\"end_s\": null}",
					   "{\"end_s\": \"5\"}",
					   "{\"end_s\": -5}",
					   "{\"end_s\": 5",
					   "[\"end_s\": 5}",
					   "{\"end_s\" 5}",
					   "{\"end_s\": inf}",
					   "{\"end_s\": 1e300}",
					   "{\"end_s\": 5x}",
					   "{\"end_s\": 0}" };
	char text[64];

	end_to_json(1764500000, text, sizeof(text));
	CHECK(strcmp(text, "{\"end_s\": 1764500000.0}\n") == 0);
	CHECK(end_of_json(text, &end_s) && end_s == 1764500000);
	CHECK(end_of_json(" {\"format\": 1,\n \"end_s\" : 1764500000.25 , \"more\": [1]}", &end_s));
	CHECK(end_s == 1764500000.25);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!end_of_json(bad[i], &end_s));
}

static void silence_changes_nothing(void)
{
	CHECK(end_after(500, END_NO_ANSWER, NAN, 100) == 500);
	CHECK(isnan(end_after(NAN, END_NO_ANSWER, NAN, 100)));
	CHECK(end_after(500, END_AT, 600, 100) == 600);
	CHECK(end_after(500, END_AT, 400, 100) == 400);
	CHECK(end_after(NAN, END_AT, 400, 100) == 400);
}

static void a_limit_that_is_lifted_becomes_a_year_once(void)
{
	CHECK(isnan(end_after(NAN, END_UNLIMITED, NAN, 100)));
	CHECK(end_after(500, END_UNLIMITED, NAN, 100) == 100 + YEAR_S);
	CHECK(end_after(100 + YEAR_S, END_UNLIMITED, NAN, 160) == 100 + YEAR_S);
}

static void the_lead_is_as_asked_unless_the_job_is_shorter(void)
{
	CHECK(end_lead_s(120, 3600) == 120);
	CHECK(end_lead_s(0, 3600) == 0);
	CHECK(end_lead_s(120, 120) == 30);
	CHECK(end_lead_s(600, 100) == 25);
	CHECK(end_lead_s(-1, 3600) == 60);
	CHECK(end_lead_s(-1, 100) == 25);
	CHECK(end_lead_s(-1, -5) == 0 && end_lead_s(10, -5) == 0);
}

static void only_a_lag_that_is_proven_counts(void)
{
	CHECK(end_clock_offset_s(100, 1000, NAN) == 900);
	CHECK(end_clock_offset_s(100, 1000, 990) == 900);
	CHECK(end_clock_offset_s(100, 1000, 1007) == 907);
}

static void the_environment_holds_whole_seconds(void)
{
	CHECK(end_parse_epoch("1796026136", &end_s) && end_s == 1796026136);
	CHECK(!end_parse_epoch("", &end_s) && !end_parse_epoch("x", &end_s) && !end_parse_epoch("0", &end_s));
	CHECK(!end_parse_epoch("-1", &end_s) && !end_parse_epoch("1.5", &end_s));
}

int main(void)
{
	squeue_names_the_end_in_either_form();
	what_makes_no_sense_is_no_answer();
	json_is_read_back_and_nonsense_refused();
	silence_changes_nothing();
	a_limit_that_is_lifted_becomes_a_year_once();
	the_lead_is_as_asked_unless_the_job_is_shorter();
	only_a_lag_that_is_proven_counts();
	the_environment_holds_whole_seconds();
	return relay_test_end();
}
