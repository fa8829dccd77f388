#include "scene.h"
#include "text.h"

static void a_number_is_digits_within_its_limits(void)
{
	static const char *const BAD[] = {
	    "", "-1", "+1", " 1", "1 ", "1.0", "0x1", "nan", "11", "4294967296", "99999999999999999999999"};
	uint32_t number = 5;

	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		CHECK(!text_to_number(BAD[i], 0, 10, &number) && number == 5);
	CHECK(!text_to_number(NULL, 0, 10, &number) && !text_to_number("0", 1, 10, &number));
	CHECK(text_to_number("0010", 0, 10, &number) && number == 10);
	CHECK(text_to_number("4294967295", 0, UINT32_MAX, &number) && number == UINT32_MAX);
}

static void a_path_has_no_control_characters_and_an_end(void)
{
	char path[PATH_MAX + 1];

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[PATH_MAX] = '\0';
	CHECK(!text_is_absolute_path(path));
	path[PATH_MAX - 1] = '\0';
	CHECK(text_is_absolute_path(path));
	CHECK(text_is_path("a b/\xc3\xa4") && !text_is_absolute_path("a"));
	CHECK(!text_is_path("") && !text_is_path(NULL) && !text_is_path("/a\nb") && !text_is_path("/a\x7f"));
}

static void what_does_not_fit_is_not_cut_short(void)
{
	char small[5];

	CHECK(text_copy(small, sizeof(small), "abcd"));
	CHECK(!text_append(small, sizeof(small), "e") && strcmp(small, "abcd") == 0);
	CHECK(!text_copy(small, sizeof(small), "abcde") && small[0] == '\0');
	CHECK(!text_join(small, sizeof(small), "/a", "bc") && small[0] == '\0');
	CHECK(text_join(small, sizeof(small), "/a", "b") && strcmp(small, "/a/b") == 0);
}

static void whatever_bytes_come_json_stays_json(void)
{
	char text[128] = "";

	CHECK(text_append_json(text, sizeof(text), "a\"\\\n\x7f\xc3\xa4\xff\xe2\x82\xed\xa0\x80"));
	CHECK(strcmp(text, "\"a\\\"\\\\\\u000a\\u007f\xc3\xa4??????\"") == 0);
	text[0] = '\0';
	CHECK(!text_append_json(text, 4, "abc"));
}

int main(void)
{
	RUN(a_number_is_digits_within_its_limits);
	RUN(a_path_has_no_control_characters_and_an_end);
	RUN(what_does_not_fit_is_not_cut_short);
	RUN(whatever_bytes_come_json_stays_json);
	return 0;
}
