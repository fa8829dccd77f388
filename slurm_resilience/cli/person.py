"""Who gives a command, for the record."""

from __future__ import annotations

import os
import pwd


def this_person() -> str:
    """By name; in a container a user may have none, and is `user 1234` then."""
    user = os.getuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
