/* The health gate: which files of a folder root runs, and which it refuses and why. */
#include "health_scene.h"

static void what_is_no_check_is_passed_over(void)
{
	add(".hidden", "exit 1");
	add("a.dpkg-old", "exit 1");
	add("b.rpmsave", "exit 1");
	add("c~", "exit 1");
	write_file(in_checks("README"), 0644, "not to be executed\n");
	add("switched-off", "exit 1");
	assert(chmod(in_checks("switched-off"), 0644) == 0);
	assert(mkdir(in_checks("folder"), 0755) == 0);
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
	assert(logged[0] == '\0');
}

static void a_link_to_a_check_is_followed_and_a_dead_one_is_said(void)
{
	char elsewhere[PATH_MAX];

	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", root);
	write_file(elsewhere, 0755, "#!/bin/sh\necho from elsewhere\nexit 1\n");
	assert(symlink(elsewhere, in_checks("linked")) == 0);
	assert(symlink("/nowhere/at/all", in_checks("dead")) == 0);
	gate(HEALTH_WARN, PATIENT_S);
	assert_only_finding("linked: from elsewhere");
	assert(strstr(logged, "/dead is not run: No such file") != NULL);
	assert(chmod(elsewhere, 0757) == 0);
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
	assert(strstr(logged, "elsewhere: others can write to it (mode 0757)") != NULL);
}

static void what_others_can_write_is_not_run(void)
{
	add("a", "echo ill; exit 1");
	add("b", "echo planted; exit 1");
	assert(chmod(in_checks("b"), 0775) == 0);
	gate(HEALTH_WARN, PATIENT_S);
	assert_only_finding("a: ill");
	assert(strstr(logged, "/b: others can write to it (mode 0775), and root would run what they write") != NULL);
	logged[0] = '\0';
	for (int i = 0; i < 2; i++) {
		assert(chmod(checks, i == 0 ? 0777 : 01777) == 0); /* sticky is no help: anybody can add a check */
		gate(HEALTH_WARN, PATIENT_S);
		assert_no_file();
	}
	assert(strstr(logged, "health.d: others can write to it (mode 0777)") != NULL);
	assert(strstr(logged, "health.d: others can write to it (mode 1777)") != NULL);
	logged[0] = '\0';
	assert(chmod(checks, 0755) == 0 && chmod(root, 0777) == 0); /* nor may the folder be replaced as a whole */
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
	assert(strstr(logged, "others can write to it (mode 0777)") != NULL);
}

static void what_belongs_to_others_is_not_run(void)
{
	if (geteuid() != 0) {
		puts("  passed over: not root");
		return;
	}
	add("a", "echo planted; exit 1");
	assert(chown(in_checks("a"), 12345, 0) == 0);
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
	assert(strstr(logged, "/a: it belongs to uid 12345, and root would run it") != NULL);
	assert(chown(in_checks("a"), 0, 0) == 0 && chown(checks, 12345, 0) == 0);
	logged[0] = '\0';
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
	assert(strstr(logged, "health.d: it belongs to uid 12345") != NULL);
}

static void no_folder_of_checks_is_said(void)
{
	assert(rmdir(checks) == 0);
	gate(HEALTH_WARN, PATIENT_S);
	assert_no_file();
	assert(strstr(logged, "health.d are not run: No such file or directory") != NULL);
}

static void the_sixty_fifth_check_is_not_looked_at_and_that_is_said(void)
{
	for (int i = 0; i < 66; i++) {
		char name[16];

		snprintf(name, sizeof(name), "c%02d", i);
		add(name, "exit 1");
	}
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == MOST);
	assert(strcmp(found[63].text, "c63: left with 1 and said nothing") == 0);
	assert(strstr(logged, "/c64 is not looked at") != NULL && strstr(logged, "/c65 is not looked at") != NULL);
}

static void long_and_strange_names_are_kept_readable(void)
{
	add("a-name-that-goes-on-and-on-and-on-and-on-and-on-and-on-and-on", "exit 1");
	add("b:c d\n", "exit 1");
	gate(HEALTH_WARN, PATIENT_S);
	assert(findings() == 2);
	assert(strcmp(found[0].text,
		      "a-name-that-goes-on-and-on-and-on-and-on-and-on-: left with 1 and said nothing") == 0);
	assert(strcmp(found[1].text, "b?c?d?: left with 1 and said nothing") == 0);
}

int main(void)
{
	static const struct test tests[] = {
	    TEST(what_is_no_check_is_passed_over),
	    TEST(a_link_to_a_check_is_followed_and_a_dead_one_is_said),
	    TEST(what_others_can_write_is_not_run),
	    TEST(what_belongs_to_others_is_not_run),
	    TEST(no_folder_of_checks_is_said),
	    TEST(the_sixty_fifth_check_is_not_looked_at_and_that_is_said),
	    TEST(long_and_strange_names_are_kept_readable),
	};

	return RUN_ALL(tests);
}
