#ifndef RELAY_LEFTOVERS_H
#define RELAY_LEFTOVERS_H

#include "identity.h"

#define LEFTOVERS_OWNER "owner.json"

/*
 * Remove the runtime folders of this user, agents' as well as relays', whose owner is proven gone. What tells nothing
 * of its owner is not ours to judge, unless it is empty. `parent` is open as `fd`.
 */
void leftovers_remove(int fd, const char *parent, const struct identity *here);

#endif
