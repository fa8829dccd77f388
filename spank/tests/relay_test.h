#ifndef RELAY_TEST_H
#define RELAY_TEST_H

/* What the relay's unit tests share: a check that says where it failed, and the count at the end. */
#include <stdio.h>
#include <stdlib.h>

static int relay_test_passed;

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
		relay_test_passed++;                                                            \
	} while (0)

static inline int relay_test_end(void)
{
	printf("%d passed\n", relay_test_passed);
	return 0;
}

#endif
