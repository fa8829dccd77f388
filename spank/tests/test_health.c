/* The health gate: what checks say becomes findings, and findings a file. */
#include "health_scene.h"

static void healthy_checks_leave_no_file(void)
{
	add("a", "echo all is well");
	add("b", "exit 0");
	gate(HEALTH_EXCLUDE, PATIENT_S);
	assert_no_file();
	assert(logged[0] == '\0');
}

static void switched_off_nothing_is_run(void)
{
	add("a", "touch \"${0%/*}/ran\"; exit 1");
	gate(HEALTH_OFF, PATIENT_S);
	assert_no_file();
	assert(access(in_checks("ran"), F_OK) < 0);
}

static void findings_come_in_the_order_of_names_whoever_was_first(void)
{
	add("b", "echo second; exit 1");
	add("a", "sleep 1; echo first; exit 3");
	add("c", "exit 0");
	add("d", "echo; echo third; echo never told; exit 1");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 3 && found_mode == HEALTH_WARN);
	assert(strcmp(found[0].text, "a: first") == 0);
	assert(strcmp(found[1].text, "b: second") == 0);
	assert(strcmp(found[2].text, "d: third") == 0);
	assert(health_findings_read(spool, JOB, &found_mode, found, 2) == 2);
	assert(health_findings_read(spool, JOB + 1, &found_mode, found, MOST) == 0);
}

static void the_file_is_as_the_contract_says(void)
{
	char path[PATH_MAX], text[256] = "";
	struct stat stated;
	FILE *file;

	add("gpu-ecc", "echo 3 rows pending; exit 1");
	umask(077);
	gate(HEALTH_EXCLUDE, PATIENT_S);
	umask(022);
	snprintf(path, sizeof(path), "%s/%d.health", spool, JOB);
	file = fopen(path, "r");
	assert(file != NULL && fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert(strcmp(text, "exclude\ngpu-ecc: 3 rows pending\n") == 0);
	assert(stat(path, &stated) == 0 && (stated.st_mode & 07777) == 0644);
	assert(stat(spool, &stated) == 0 && (stated.st_mode & 07777) == 0755);
	health_findings_forget(spool, JOB);
	assert_no_file();
	health_findings_forget(spool, JOB); /* twice is harmless */
	assert(logged[0] == '\0');
}

static void a_node_that_is_well_again_forgets_what_was_found(void)
{
	add("a", "echo ill; exit 1");
	gate(HEALTH_WARN, PATIENT_S);
	assert_only_finding("a: ill");
	add("a", "exit 0");
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
}

static void who_says_nothing_is_told_by_how_it_ended(void)
{
	add("a", "exit 7");
	add("b", "kill -SEGV $$");
	add("c", "echo this is on stderr >&2; exit 2");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 3);
	assert(strcmp(found[0].text, "a: left with 7 and said nothing") == 0);
	assert(strcmp(found[1].text, "b: died of signal 11 and said nothing") == 0);
	assert(strcmp(found[2].text, "c: left with 2 and said nothing") == 0);
}

static void junk_becomes_question_marks(void)
{
	add("a", "printf 'a\\000\\033[31m\\377\\302\\240\"\\tz\\r\\nmore\\n'; exit 1");
	gate(HEALTH_WARN, PATIENT_S);
	assert_only_finding("a: a??[31m???\"?z");
}

static void real_junk_is_survived(void)
{
	add("a", "head -c 300000 /dev/urandom; exit 1");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 1);
	for (const char *byte = found[0].text; *byte != '\0'; byte++)
		assert(*byte >= 0x20 && *byte < 0x7f);
}

static void a_check_knows_the_job_and_no_more(void)
{
	assert(setenv("LD_PRELOAD_NOT", "x", 1) == 0 && setenv("PROC", "/tmp/of-a-user", 1) == 0);
	signal(SIGPIPE, SIG_IGN);
	add("a",
	    "echo $RESILIENCE_JOB_ID $RESILIENCE_HEALTH_TIMEOUT $(pwd) ${PROC:-clean} $(env | grep -c NOT); exit 1");
	add("b", "yes | head -n 1 >/dev/null; ls /proc/self/fd | wc -l; exit 1"); /* 0, 1, 2 and the folder */
	gate(HEALTH_WARN, PATIENT_S);
	signal(SIGPIPE, SIG_DFL);
	unsetenv("PROC");
	assert(findings() == 2);
	assert(strcmp(found[0].text, "a: 4711 60 / clean 0") == 0);
	assert(strcmp(found[1].text, "b: 4") == 0);
}

static void ignored_children_are_heard_all_the_same(void)
{
	add("a", "echo ill; exit 1");
	signal(SIGCHLD, SIG_IGN);
	gate(HEALTH_WARN, PATIENT_S);
	assert_only_finding("a: ill");
	assert(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

static void a_prolog_without_standard_files_runs_them_too(void)
{
	int status;
	pid_t child;

	add("a", "echo ill; exit 1");
	child = fork();
	if (child == 0) {
		close(0);
		close(1);
		close(2);
		gate(HEALTH_WARN, PATIENT_S);
		_exit(0);
	}
	assert(waitpid(child, &status, 0) == child && status == 0);
	assert_only_finding("a: ill");
}

static void a_spool_that_cannot_be_written_is_said(void)
{
	add("a", "echo ill; exit 1");
	write_file(spool, 0644, "a file where the folder should be\n");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 0);
	assert(strstr(logged, "what the health checks found can't be written to") != NULL);
}

static void what_cannot_be_executed_is_a_finding(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	if (preloaded != NULL && strstr(preloaded, "vgpreload") != NULL) {
		puts("  passed over: valgrind kills who calls execve in vain");
		return;
	}
	write_file(in_checks("a"), 0755, "#!/no/such/shell\n");
	write_file(in_checks("b"), 0755, "no first line\n");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 2);
	assert(strcmp(found[0].text, "a: it can't be executed; is its first line one like #!/bin/sh?") == 0);
	assert(strcmp(found[1].text, "b: it can't be executed; is its first line one like #!/bin/sh?") == 0);
}

static void a_file_that_is_not_ours_has_no_findings(void)
{
	static const char *const texts[] = {"", "\n", "maybe\na: b\n", "warn", "warn\n", "\n\n\nexclude"};
	char path[PATH_MAX], *large;

	assert(mkdir(spool, 0755) == 0);
	snprintf(path, sizeof(path), "%s/%d.health", spool, JOB);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_file(path, 0644, texts[i]);
		assert(findings() == 0);
	}
	large = malloc(100001);
	assert(large != NULL);
	memset(large, 'x', 100000);
	large[100000] = '\0';
	write_file(path, 0644, large);
	assert(findings() == 0);
	memcpy(large, "warn\n", 5);
	large[3000] = '\0';
	write_file(path, 0644, large);
	assert(findings() == 1 && strlen(found[0].text) == sizeof(found[0].text) - 1);
	free(large);
	assert(unlink(path) == 0 && symlink("/etc/passwd", path) == 0 && findings() == 0);
	assert(unlink(path) == 0 && mkfifo(path, 0644) == 0 && findings() == 0);
	if (geteuid() == 0) {
		assert(unlink(path) == 0);
		write_file(path, 0644, "exclude\na: planted\n");
		assert(findings() == 1 && chown(path, 12345, 0) == 0 && findings() == 0);
	}
}

int main(void)
{
	static const struct test tests[] = {
	    TEST(healthy_checks_leave_no_file),
	    TEST(switched_off_nothing_is_run),
	    TEST(findings_come_in_the_order_of_names_whoever_was_first),
	    TEST(the_file_is_as_the_contract_says),
	    TEST(a_node_that_is_well_again_forgets_what_was_found),
	    TEST(who_says_nothing_is_told_by_how_it_ended),
	    TEST(junk_becomes_question_marks),
	    TEST(real_junk_is_survived),
	    TEST(a_check_knows_the_job_and_no_more),
	    TEST(ignored_children_are_heard_all_the_same),
	    TEST(a_prolog_without_standard_files_runs_them_too),
	    TEST(a_spool_that_cannot_be_written_is_said),
	    TEST(what_cannot_be_executed_is_a_finding),
	    TEST(a_file_that_is_not_ours_has_no_findings),
	};

	return RUN_ALL(tests);
}
