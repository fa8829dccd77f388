#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stop_page.h"

#include <string.h>
#include <unistd.h>

#define FORMAT 1
#define BODY 8 /* what the checksum is of begins here */

static void put(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void put_double(uint8_t *at, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put(at, bits, 8);
}

/* zlib's. A table would be quicker, and nobody would notice. */
static uint32_t crc32_of(const uint8_t *bytes, size_t length)
{
	uint32_t crc = 0xffffffffU;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
	}
	return ~crc;
}

void stop_page_encode(const struct stop_request *request, uint8_t bytes[STOP_PAGE_USED_BYTES])
{
	size_t length = strnlen(request->because, STOP_BECAUSE_BYTES);

	memset(bytes, 0, STOP_PAGE_USED_BYTES);
	bytes[0] = (uint8_t)request->reason;
	bytes[1] = FORMAT;
	put(bytes + 2, length, 2);
	put_double(bytes + BODY, request->requested_s);
	put_double(bytes + BODY + 8, request->deadline_s);
	memcpy(bytes + BODY + 16, request->because, length);
	put(bytes + 4, crc32_of(bytes + BODY, STOP_PAGE_USED_BYTES - BODY), 4);
}

/*
 * By write(2), not by a mapping: one call is never cut short by SIGKILL, and a page that somebody has truncated doesn't
 * kill us by SIGBUS. Who reads meanwhile finds the checksum wrong and reads again.
 */
bool stop_page_write(int fd, const struct stop_request *request)
{
	uint8_t bytes[STOP_PAGE_USED_BYTES];

	stop_page_encode(request, bytes);
	if (pwrite(fd, bytes + 1, sizeof(bytes) - 1, 1) != (ssize_t)sizeof(bytes) - 1)
		return false;
	return pwrite(fd, bytes, 1, 0) == 1; /* last: who sees the reason finds the rest */
}
