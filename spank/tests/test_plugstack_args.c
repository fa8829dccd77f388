#include "log.h"
#include "plugstack_args.h"
#include "scene.h"

static struct plugstack_args args;

static void parse(const char *word)
{
	char copy[PATH_MAX * 2];
	char *words[] = {copy};

	snprintf(copy, sizeof(copy), "%s", word);
	fake_logged[0] = '\0';
	plugstack_args_parse(1, words, &args, resilience_log_error);
}

static void without_arguments_everything_has_its_default(void)
{
	plugstack_args_parse(0, NULL, &args, resilience_log_error);
	CHECK(strcmp(args.spool, "/var/spool/slurm-resilience") == 0);
	CHECK(strcmp(args.relay, "/usr/libexec/slurm-resilience/relay") == 0);
	CHECK(strcmp(args.health_directory, "/usr/libexec/slurm-resilience/health.d") == 0);
	CHECK(strcmp(args.runtime, "/dev/shm") == 0);
	CHECK(args.health == HEALTH_OFF && args.health_timeout_s == 10 && args.kill_wait_s == 30);
	CHECK(args.notes_keep_days == 30 && fake_logged[0] == '\0');
}

static void what_is_said_is_taken(void)
{
	static char words[][40] = {"spool=/s/%n",    "relay=off",     "runtime=/run/x",	    "kill_wait=120",
				   "health=exclude", "health_dir=/h", "health_timeout=300", "notes_keep_days=7"};
	char *pointers[8];

	for (int i = 0; i < 8; i++)
		pointers[i] = words[i];
	plugstack_args_parse(8, pointers, &args, resilience_log_error);
	CHECK(strcmp(args.spool, "/s/%n") == 0 && args.relay[0] == '\0' && strcmp(args.runtime, "/run/x") == 0);
	CHECK(args.kill_wait_s == 120 && args.health == HEALTH_EXCLUDE && strcmp(args.health_directory, "/h") == 0);
	CHECK(args.health_timeout_s == 300 && args.notes_keep_days == 7 && fake_logged[0] == '\0');
	parse("health=warn");
	CHECK(args.health == HEALTH_WARN);
}

static void a_bad_argument_is_named_and_the_default_stands(void)
{
	static const char *const BAD[] = {"spool=relative",    "spool=",
					  "relay=no",	       "runtime=",
					  "kill_wait=-1",      "kill_wait=",
					  "health=Exclude",    "health_dir=x",
					  "health_timeout=0",  "health_timeout=301",
					  "notes_keep_days=0", "notes_keep_days=1d"};
	struct plugstack_args defaults;

	plugstack_args_parse(0, NULL, &defaults, resilience_log_error);
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		parse(BAD[i]);
		CHECK(strstr(fake_logged, BAD[i]) != NULL && strstr(fake_logged, "it must be") != NULL);
		CHECK(memcmp(&args, &defaults, sizeof(args)) == 0);
	}
}

static void an_unknown_argument_is_named_and_ignored(void)
{
	static const char *const UNKNOWN[] = {"spoo=/x",       "spool", "SPOOL=/x", "=", "", "fault=task_exit:crash",
					      "health_dirs=/x"};

	for (size_t i = 0; i < sizeof(UNKNOWN) / sizeof(UNKNOWN[0]); i++) {
		parse(UNKNOWN[i]);
		CHECK(strstr(fake_logged, UNKNOWN[i]) != NULL && strstr(fake_logged, "unknown") != NULL);
	}
}

static void a_path_without_end_is_refused(void)
{
	char word[PATH_MAX + 32];

	memset(word, 'a', sizeof(word));
	memcpy(word, "spool=/", strlen("spool=/"));
	word[sizeof(word) - 1] = '\0';
	parse(word);
	CHECK(strcmp(args.spool, "/var/spool/slurm-resilience") == 0 && strlen(fake_logged) < 512);
}

int main(void)
{
	RUN(without_arguments_everything_has_its_default);
	RUN(what_is_said_is_taken);
	RUN(a_bad_argument_is_named_and_the_default_stands);
	RUN(an_unknown_argument_is_named_and_ignored);
	RUN(a_path_without_end_is_refused);
	return 0;
}
