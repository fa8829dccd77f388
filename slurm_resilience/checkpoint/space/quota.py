"""What the kernel's quotas leave a user, by `quotactl`. Where nobody answers, nothing is known: never an error.

Answers come from local file systems (ext4, XFS, f2fs). NFS, Lustre and GPFS keep theirs where only their own commands
find them. A project's quota needs privileges to ask for, but XFS and ext4 show it in `statvfs` already.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SYS_QUOTACTL_FD = 443
"""The same number on every architecture that Linux has had since 5.14."""
_Q_GETQUOTA = 0x800007
_USER, _GROUP = 0, 1
_IF_DQBLK = struct.Struct("=8QI4x")
"""struct if_dqblk: block limits (hard, soft), bytes in use, inode limits (hard, soft), inodes in use, two times."""
_BLOCK_BYTES = 1024
"""QIF_DQBLKSIZE: the unit of block limits, whatever the file system's blocks are."""

Ask = Callable[[int, int, int], "bytes | None"]
"""(descriptor on the file system, kind, id) to a struct if_dqblk; None: no answer."""


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    """None: no limit that we know of."""

    bytes: int | None
    inodes: int | None


def quota_left(directory: Path, ask: Ask | None = None) -> QuotaLeft:
    """What new files of this process in `directory` may still take: the narrowest of its user's and group's quotas."""
    ask = ask or _ask_the_kernel
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return QuotaLeft(None, None)
    try:
        answers = [ask(descriptor, _USER, os.geteuid()), ask(descriptor, _GROUP, _group_of_new_files(descriptor))]
    finally:
        os.close(descriptor)
    left = [_left(answer) for answer in answers if answer is not None]
    return QuotaLeft(_narrowest([each.bytes for each in left]), _narrowest([each.inodes for each in left]))


def _group_of_new_files(descriptor: int) -> int:
    status = os.fstat(descriptor)
    return status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()


def _left(answer: bytes) -> QuotaLeft:
    hard, soft, used_bytes, inodes_hard, inodes_soft, used_inodes, *_ = _IF_DQBLK.unpack(answer[: _IF_DQBLK.size])
    # Beyond the soft limit one may write for a grace of days: only without a hard one does it count here.
    limit_bytes, limit_inodes = (hard or soft) * _BLOCK_BYTES, inodes_hard or inodes_soft
    return QuotaLeft(
        max(0, limit_bytes - used_bytes) if limit_bytes else None,
        max(0, limit_inodes - used_inodes) if limit_inodes else None,
    )


def _narrowest(limits: list[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _ask_the_kernel(descriptor: int, kind: int, id_: int) -> bytes | None:
    answer = ctypes.create_string_buffer(_IF_DQBLK.size + 64)
    command = ctypes.c_uint((_Q_GETQUOTA << 8) | kind)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.syscall(ctypes.c_long(_SYS_QUOTACTL_FD), descriptor, command, ctypes.c_uint(id_), answer)
    except (OSError, AttributeError):
        return None  # a libc that we can't call: we know nothing
    return None if failed else answer.raw
