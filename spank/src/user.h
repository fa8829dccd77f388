/* The user whose job it is, and how a child of ours becomes him for good. */
#ifndef RESILIENCE_USER_H
#define RESILIENCE_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	uid_t uid;
	gid_t gid;
	const gid_t *groups; /* somebody else's memory */
	int group_count;
};

/* Only in a child that does nothing for root afterwards. False: errno says why, and the child must leave. */
bool user_become(const struct user *user);

#endif
