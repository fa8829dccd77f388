#include "options.h"
#include "scene.h"

static struct options options;
static char sentence[512];

static bool take(int id, const char *value)
{
	sentence[0] = '\0';
	return options_take(&options, id, value, sentence, sizeof(sentence));
}

static void nothing_said_is_nothing_done(void)
{
	options = (struct options){0};
	CHECK(!options_in_force(&options));
}

static void without_an_argument_it_is_requeue(void)
{
	static const char *const NONE[] = {NULL, "", "(null)", "requeue"};

	for (size_t i = 0; i < 4; i++) {
		options = (struct options){0};
		CHECK(take(OPTION_RESILIENT, NONE[i]) && options_in_force(&options));
		CHECK(strcmp(options_continuation(&options), "requeue") == 0);
	}
	CHECK(take(OPTION_RESILIENT, "chain") && strcmp(options_continuation(&options), "chain") == 0);
}

static void the_other_options_imply_it_unless_it_is_off(void)
{
	options = (struct options){0};
	CHECK(take(OPTION_RUN, "runs/a") && options_in_force(&options));
	CHECK(strcmp(options_continuation(&options), "requeue") == 0);
	CHECK(take(OPTION_RESILIENT, "off") && !options_in_force(&options));
	CHECK(take(OPTION_LEAD, "0") && !options_in_force(&options));
	CHECK(take(OPTION_RESILIENT, "chain") && options_in_force(&options)); /* the last word counts */
	options = (struct options){0};
	CHECK(take(OPTION_LEAD, "0") && options_in_force(&options) && options.lead_s == 0);
}

static void a_bad_value_is_named_and_changes_nothing(void)
{
	char long_path[PATH_MAX + 1];
	const struct options before = {.continuation = CONTINUE_CHAIN, .run = "/r", .has_lead = true, .lead_s = 5};
	const struct {
		int id;
		const char *value, *names;
	} bad[] = {
	    {OPTION_RESILIENT, "maybe", "--resilient must"},
	    {OPTION_RESILIENT, "Chain", "\"Chain\""},
	    {OPTION_RUN, "", "is empty"},
	    {OPTION_RUN, NULL, "is empty"},
	    {OPTION_RUN, "a\nb", "control"},
	    {OPTION_RUN, long_path, "shorter than 4096"},
	    {OPTION_LEAD, "", "--resilient-signal-lead"},
	    {OPTION_LEAD, "-1", "\"-1\""},
	    {OPTION_LEAD, "604801", "604800"},
	    {OPTION_LEAD, "1m", "\"1m\""},
	    {OPTION_LEAD, NULL, "number of seconds"},
	    {99, "x", "99"},
	};

	memset(long_path, 'a', PATH_MAX);
	long_path[PATH_MAX] = '\0';
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		options = before;
		CHECK(!take(bad[i].id, bad[i].value) && strstr(sentence, bad[i].names) != NULL);
		CHECK(memcmp(&options, &before, sizeof(options)) == 0);
	}
}

int main(void)
{
	RUN(nothing_said_is_nothing_done);
	RUN(without_an_argument_it_is_requeue);
	RUN(the_other_options_imply_it_unless_it_is_off);
	RUN(a_bad_value_is_named_and_changes_nothing);
	return 0;
}
