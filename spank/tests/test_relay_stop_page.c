/* Stop requests, and the bytes of the page: as Python's struct and zlib make them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../relay/stop_page.h"
#include "relay_test.h"

static void a_sigterm_promises_kill_wait_alone(void)
{
	struct stop_request got = stop_for_signal(SIGTERM, "rank process 4711", 100, stop_promise_s(30), 110);

	CHECK(got.reason == STOP_TERMINATION && got.requested_s == 100 && got.deadline_s == 128);
	CHECK(strcmp(got.because, "SIGTERM came to rank process 4711") == 0);
	CHECK(stop_promise_s(2) == 1 && stop_promise_s(0) == 1);
}

static void a_warning_has_no_deadline_but_the_end(void)
{
	struct stop_request got = stop_for_signal(SIGUSR1, "rank process 5", 100, 28, INFINITY);

	CHECK(got.reason == STOP_WARNING && isinf(got.deadline_s) && strncmp(got.because, "SIGUSR1 ", 8) == 0);
	got = stop_for_signal(SIGUSR2, "rank process 5", 100, 28, 500);
	CHECK(got.reason == STOP_WARNING && got.deadline_s == 528 && strncmp(got.because, "SIGUSR2 ", 8) == 0);
}

static void the_end_says_how_far_it_is(void)
{
	struct stop_request got = stop_for_end(100, 28, 160.4);

	CHECK(got.reason == STOP_TIME_LIMIT && got.requested_s == 100 && got.deadline_s == 188.4);
	CHECK(strcmp(got.because, "the job's time is over in 60 s") == 0);
	CHECK(strcmp(stop_for_end(100, 28, 90).because, "the job's time is over") == 0);
}

static void the_first_reason_stays_and_the_deadline_comes_nearer(void)
{
	struct stop_request standing = { 0 };
	struct stop_request warning = stop_for_signal(SIGUSR1, "a", 10, 28, INFINITY);
	struct stop_request term = stop_for_signal(SIGTERM, "b", 20, 28, INFINITY);
	struct stop_request again = stop_for_signal(SIGTERM, "c", 21, 28, INFINITY);

	CHECK(stop_merge(&standing, &warning) && standing.reason == STOP_WARNING);
	CHECK(!stop_merge(&standing, &warning));
	CHECK(stop_merge(&standing, &term));
	CHECK(standing.reason == STOP_WARNING && standing.requested_s == 10 && standing.deadline_s == 48);
	CHECK(strcmp(standing.because, "SIGUSR1 came to a") == 0);
	CHECK(!stop_merge(&standing, &again) && standing.deadline_s == 48);
}

static void the_bytes_are_those_of_the_format(void)
{
	/* struct.pack("<dd208s", 1.5, inf, b"abc"): zlib.crc32 of it is 0xa9966fcb (checked in Python). */
	struct stop_request request = {
		.reason = STOP_WARNING, .because = "abc", .requested_s = 1.5, .deadline_s = INFINITY
	};
	static const uint8_t head[] = { 1,    1,    3, 0, 0xcb, 0x6f, 0x96, 0xa9, 0,	0,    0,   0,	0,   0,
					0xf8, 0x3f, 0, 0, 0,	0,    0,    0,	  0xf0, 0x7f, 'a', 'b', 'c', 0 };
	uint8_t bytes[STOP_PAGE_USED_BYTES];

	stop_page_encode(&request, bytes);
	CHECK(memcmp(bytes, head, sizeof(head)) == 0);
	CHECK(bytes[STOP_PAGE_USED_BYTES - 1] == 0);
}

static void a_long_reason_is_cut(void)
{
	struct stop_request request = { .reason = STOP_TERMINATION };
	uint8_t bytes[STOP_PAGE_USED_BYTES];

	memset(request.because, 'x', STOP_BECAUSE_BYTES); /* and no NUL but the last */
	stop_page_encode(&request, bytes);
	CHECK(bytes[2] == 200 && bytes[3] == 0 && bytes[24 + 199] == 'x' && bytes[24 + 200] == 0);
}

static void a_page_is_written_in_place_and_a_closed_one_is_said(void)
{
	char name[] = "/tmp/relay-page-XXXXXX";
	int fd = mkstemp(name);
	struct stop_request request = stop_for_signal(SIGTERM, "a", 1, 28, INFINITY);
	uint8_t wanted[STOP_PAGE_USED_BYTES], got[STOP_PAGE_USED_BYTES];

	CHECK(fd >= 0 && ftruncate(fd, STOP_PAGE_BYTES) == 0);
	CHECK(stop_page_write(fd, &request));
	stop_page_encode(&request, wanted);
	CHECK(pread(fd, got, sizeof(got), 0) == sizeof(got) && memcmp(got, wanted, sizeof(got)) == 0);
	CHECK(lseek(fd, 0, SEEK_END) == STOP_PAGE_BYTES);
	close(fd);
	unlink(name);
	CHECK(!stop_page_write(-1, &request));
}

int main(void)
{
	a_sigterm_promises_kill_wait_alone();
	a_warning_has_no_deadline_but_the_end();
	the_end_says_how_far_it_is();
	the_first_reason_stays_and_the_deadline_comes_nearer();
	the_bytes_are_those_of_the_format();
	a_long_reason_is_cut();
	a_page_is_written_in_place_and_a_closed_one_is_said();
	return relay_test_end();
}
