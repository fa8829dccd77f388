#include "life.h"
#include "scene.h"

static const char *life_of(const char *restart, const char *array, const char *task)
{
	static struct life life;

	life_from(&life, 123, restart, array, task);
	return life.text;
}

static void a_life_is_the_job_and_its_restart_count(void)
{
	CHECK(strcmp(life_of(NULL, NULL, NULL), "123-0") == 0);
	CHECK(strcmp(life_of("2", NULL, NULL), "123-2") == 0);
	CHECK(strcmp(life_of("2", "77", "4"), "77_4-2") == 0);
	CHECK(strcmp(life_of("", "77", "0"), "77_0-0") == 0);
}

static void what_a_user_may_have_put_into_the_environment_never_gets_into_a_name(void)
{
	CHECK(strcmp(life_of("../x", "77", "../../etc"), "123-0") == 0);
	CHECK(strcmp(life_of("-1", "7/7", "4"), "123-0") == 0);
	CHECK(strcmp(life_of("99999999999", "77", NULL), "123-0") == 0);
}

static void only_lives_of_the_same_job_are_compared(void)
{
	struct life life;
	uint32_t restart = 0;

	life_from(&life, 123, "1", NULL, NULL);
	CHECK(life_is_of_same_job(&life, "123-7", &restart) && restart == 7);
	CHECK(!life_is_of_same_job(&life, "1234-7", &restart) && !life_is_of_same_job(&life, "12-7", &restart));
	CHECK(!life_is_of_same_job(&life, "123-", &restart) && !life_is_of_same_job(&life, "123-7x", &restart));
	CHECK(!life_is_of_same_job(&life, "123_1-7", &restart) && !life_is_of_same_job(&life, "123", &restart));
	life_from(&life, 125, NULL, "77", "4");
	CHECK(life_is_of_same_job(&life, "77_4-1", &restart) && !life_is_of_same_job(&life, "77_40-1", &restart));
}

static void what_has_not_the_form_of_a_life_is_none(void)
{
	static const char *const BAD[] = {"",	  "1",	     "1-",  "-1",   "1-2-3", "1_-2",
					  "_1-2", "1_2_3-4", "a-1", "1-1x", "1 -1"};

	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		CHECK(!life_is_well_formed(BAD[i]));
	CHECK(life_is_well_formed("1-0") && life_is_well_formed("4294967295_4294967295-4294967295"));
}

int main(void)
{
	RUN(a_life_is_the_job_and_its_restart_count);
	RUN(what_a_user_may_have_put_into_the_environment_never_gets_into_a_name);
	RUN(only_lives_of_the_same_job_are_compared);
	RUN(what_has_not_the_form_of_a_life_is_none);
	return 0;
}
