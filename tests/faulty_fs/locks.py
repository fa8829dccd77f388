"""Whole-file locks (flock) that all views of a faulty disk share."""

from __future__ import annotations

import fcntl
import threading
from dataclasses import dataclass, field

Owner = tuple[int, int]
"""The view, and what the kernel calls the owner there."""


@dataclass(slots=True)
class SharedLocks:
    _holders: dict[int, dict[Owner, int]] = field(default_factory=dict)
    """By inode: who holds it, and how (F_RDLCK or F_WRLCK)."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, inode: int, owner: Owner, kind: int) -> bool:
        """Take, change or (F_UNLCK) leave a lock; False where another's is in the way."""
        with self._lock:
            holders = self._holders.setdefault(inode, {})
            if kind == fcntl.F_UNLCK:
                holders.pop(owner, None)
                return True
            others = [held for holder, held in holders.items() if holder != owner]
            if others and (kind == fcntl.F_WRLCK or fcntl.F_WRLCK in others):
                return False
            holders[owner] = kind
            return True
