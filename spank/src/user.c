#include "user.h"

#include <errno.h>
#include <grp.h>
#include <unistd.h>

bool user_become(const struct user *user)
{
	uid_t real, effective, saved;

	if (getresuid(&real, &effective, &saved) < 0)
		return false;
	if (real == 0 || effective == 0 || saved == 0) {
		/* slurmstepd may be the user for the moment: only root may set groups */
		if (effective != 0 && setresuid((uid_t)-1, 0, (uid_t)-1) < 0)
			return false;
		if (setgroups((size_t)user->group_count, user->groups) < 0 ||
		    setresgid(user->gid, user->gid, user->gid) < 0 || setresuid(user->uid, user->uid, user->uid) < 0)
			return false;
	}
	if (getresuid(&real, &effective, &saved) < 0)
		return false;
	if (real != user->uid || effective != user->uid || saved != user->uid) {
		errno = EPERM; /* a slurmd that is not root runs jobs of one user */
		return false;
	}
	return true;
}
