"""A node's part of the rounds of shared storage: small files, made and looked for."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.preflight.check import Context, Tell

PREFIX = ".preflight-shared-"
SEEN_S = 5.0
"""How long a node looks for another one's file: attribute caches keep a folder for 3 s, and up to 60 s (nfs(5))."""
HOLD_S = 0.03
LOCK_S = 4.0
_POLL_S = 0.02
_NO_FLOCK = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
"""The manifest takes hard links there."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def existing(path: Path) -> Path:
    """`path`, or its nearest parent that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def look_before(_: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """Look for what is not there yet: a file system that remembers that it wasn't will show it late."""
    folder = Path(assignment["run_dir"]) / f"{PREFIX}{assignment['word']}"
    tell(f"looking for {folder}")
    top = existing(Path(assignment["run_dir"]))
    return {"top": str(top), "early": (top / folder.name).exists()}


def begin(_: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """The first node makes the folder and what lies in it."""
    folder = Path(assignment["top"]) / f"{PREFIX}{assignment['word']}"
    tell(f"writing {folder}")
    try:
        folder.mkdir()
        for name in ("word", "renamed", "lock"):
            _write(folder / name, assignment["word"])
    except OSError as error:
        _remove(folder)
        return {"error": error.strerror or str(error)}
    return {"folder": str(folder)}


def join(_: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """The others look for it, write their own, and contend for what only one may have."""
    folder, word, me = Path(assignment["folder"]), str(assignment["word"]), str(assignment["me"])
    tell(f"looking for {folder / 'word'}")
    begun = time.monotonic()
    answer: dict[str, Any] = {"seen": False}
    try:
        if not _until((folder / "word").exists, SEEN_S):
            return answer
        answer["late_s"] = round(time.monotonic() - begun, 3)
        answer["seen"] = True
        answer["same"] = _until(lambda: _read(folder / "word") == word, SEEN_S)
        if not answer["same"]:
            return answer
        tell(f"writing {folder / me}")
        _write(folder / me, me)
        answer["won"] = _link(folder / me, folder / "won")
        if assignment["contend"]:
            tell(f"locking {folder / 'lock'}")
            answer["flock"] = _flock(folder)
        if assignment["rename"]:
            tell(f"renaming over {folder / 'renamed'}")
            _write(folder / f"{me}.new", me)
            (folder / f"{me}.new").replace(folder / "renamed")
    except OSError as error:
        answer["error"] = error.strerror or str(error)
    return answer


def finish(_: Context, assignment: Mapping[str, Any], tell: Tell) -> Mapping[str, Any]:
    """The first node looks for what the others wrote, and removes everything."""
    folder = Path(assignment["folder"])
    tell(f"reading {folder}")
    begun = time.monotonic()
    late_s: dict[str, float] = {}
    wanted = [str(name) for name in assignment["from"]]

    def look() -> bool:
        for name in wanted:
            if name not in late_s and _read(folder / name) == name:
                late_s[name] = round(time.monotonic() - begun, 3)
        return len(late_s) == len(wanted)

    try:
        _until(look, SEEN_S)
        renamed = _until(lambda: _read(folder / "renamed") == assignment["renamed"], SEEN_S)
    finally:
        tell(f"removing {folder}")
        _remove(folder)
    return {"late_s": late_s, "renamed": renamed}


def _flock(folder: Path) -> str:
    """`ok`, `refused` (there is none here), `shared` (two were inside at once) or `late`."""
    inside = folder / "inside"
    deadline = time.monotonic() + LOCK_S
    with (folder / "lock").open("rb+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno in _NO_FLOCK:
                    return "refused"
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
            if time.monotonic() > deadline:
                return "late"
            time.sleep(_POLL_S)
        try:
            with inside.open("x"):
                time.sleep(HOLD_S)
        except FileExistsError:
            return "shared"
        inside.unlink()
    return "ok"


def _link(own: Path, to: Path) -> bool | None:
    """Whether we were the one to make `to`. None: there are no hard links here."""
    try:
        os.link(own, to)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS:
            return None
        raise
    return True


def _write(path: Path, text: str) -> None:
    with path.open("x") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def _until(seen: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
