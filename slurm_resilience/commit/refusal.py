"""Why a file system refused, found again behind the errors that say it in a sentence."""

from __future__ import annotations

import errno

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What only room can cure."""


def errno_of(error: BaseException) -> int | None:
    """Of the OSError that `error` is, or comes from. None: the file system is not to blame."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause.errno
        cause = cause.__cause__
    return None
