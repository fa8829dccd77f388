"""A lock for file systems without flock: a hard link, which only one can make, that says who made it.

Unlike flock it outlives a dead holder, so it must sometimes be broken. It is broken only on proof that the holder is
gone (see process_identity); a holder on another host is never guessed about.

Breaking is the dangerous part: between "the holder is gone" and "unlink", somebody else may have broken it and taken
it anew. So who breaks must hold a second lock of the same kind, named by the dead holder's token: whoever has that,
and then still sees the dead holder's token in the lock, is the only one in the world who may unlink it. A breaker that
dies in between leaves the second lock behind, which is broken in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.durable_file import unnamed_beside
from slurm_resilience.errors import ManifestUnavailable
from slurm_resilience.process_identity import Identity, Liveness, liveness

_POLL_S = 0.05
_RELEASE_AGAIN_AFTER_S = (0.05, 0.2, 0.5, 1.0)
"""A link that stays is held by a process that lives: for everybody else the run can't be written to any more."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class _Holder:
    token: str
    identity: Identity


class LinkLock:
    def __init__(self, path: Path, *, patience_s: float, clock: Clock) -> None:
        self._held_path = path.with_name(f"{path.name}.held")
        self._patience_s = patience_s
        self._clock = clock
        self._token: str | None = None

    def acquire(self) -> None:
        """Raises ManifestUnavailable, with what to check and what to remove, where it can't be had in time."""
        until_s = self._clock.monotonic_s() + self._patience_s
        try:
            while (token := _take(self._held_path)) is None:
                if self._clock.monotonic_s() >= until_s:
                    raise ManifestUnavailable(self._complaint())
                self._clock.sleep(_POLL_S)
        except OSError as error:
            raise ManifestUnavailable(f"{self._held_path} can't be made: {error}") from error
        self._token = token

    def release(self) -> None:
        """Raises ManifestUnavailable where the link can't be removed: then it is held until this process ends."""
        for pause_s in _RELEASE_AGAIN_AFTER_S:
            with contextlib.suppress(OSError):
                self._remove()
                return
            self._clock.sleep(pause_s)
        try:
            self._remove()
        except OSError as error:
            raise ManifestUnavailable(f"{self._held_path} can't be removed: {error}") from error

    def _remove(self) -> None:
        holder = _read(self._held_path)
        if holder is not None and holder.token == self._token:  # else a person removed it, and another has it now
            self._held_path.unlink(missing_ok=True)
        self._token = None

    def _complaint(self) -> str:
        holder = _read(self._held_path)
        if holder is None:
            return f"{self._held_path} names no holder: if no process of this run is alive anywhere, remove it"
        who = holder.identity
        return (
            f"{self._held_path} is held by process {who.pid} on {who.host}: look there with `ps -p {who.pid}`, "
            f"and only if that process is gone (or the host has started anew), remove {self._held_path}"
        )


def _take(path: Path) -> str | None:
    """Take `path` now: the token of the new hold, or None. A dead holder's is removed, to be taken the next time."""
    token = secrets.token_hex(16)
    if _link(path, token):
        return token
    holder = _read(path)
    if holder is not None and liveness(holder.identity) is Liveness.GONE:
        _break(path, holder)
    return None


def _break(path: Path, dead: _Holder) -> None:
    breaking = path.with_name(f"{path.name}.breaking-{dead.token[:16]}")
    if _take(breaking) is None:
        return  # somebody else is at it, or died at it: then it is broken first
    try:
        if _read(path) == dead:
            path.unlink()
    finally:
        breaking.unlink()


def _link(path: Path, token: str) -> bool:
    content = json.dumps({"token": token, **asdict(Identity.of_this_process())}).encode()
    unnamed = unnamed_beside(path)
    try:
        with unnamed.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # who finds the link must find who made it
        try:
            os.link(unnamed, path)
        except FileExistsError:
            # NFS may lose the answer to a link that it made: the count of names tells.
            return unnamed.stat().st_nlink == 2
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _create(path, content)
        return True
    finally:
        unnamed.unlink(missing_ok=True)


def _create(path: Path, content: bytes) -> bool:
    """Where there are no hard links either. A holder that dies before it has said who it is must be removed by hand."""
    try:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def _read(path: Path) -> _Holder | None:
    """None: nobody holds it, or what is there can't be read: then nobody knows."""
    try:
        value = json.loads(path.read_bytes())
        return _Holder(value.pop("token"), Identity(**value))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
