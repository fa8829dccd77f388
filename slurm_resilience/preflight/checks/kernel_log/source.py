"""Where the kernel's log can be read by this user: each kernel and each site has it elsewhere."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from slurm_resilience.command import run
from slurm_resilience.errors import CommandError
from slurm_resilience.preflight.check import Tell
from slurm_resilience.preflight.checks.kernel_log.trouble import Line

_RECORD_BYTES = 8192
"""The kernel's own limit: a read with less room fails."""
_MOST_RECORDS = 200_000
_ANSWER_S = 3.0
_SECONDS = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)$")


class Unreadable(Exception):
    """The message says why."""


def kernel_log(root: Path, tell: Tell) -> list[Line]:
    """What the kernel said since the machine started, as far as its buffer goes back. Raises Unreadable."""
    tell("reading /dev/kmsg")
    try:
        return _from_kmsg(root / "dev" / "kmsg")
    except OSError as error:
        why = f"/dev/kmsg: {error.strerror}"
    if root != Path("/"):
        raise Unreadable(why)
    for argv in (["dmesg"], ["journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-monotonic"]):
        tell(f"running {argv[0]}")
        try:
            done = run(argv, timeout_s=_ANSWER_S)
        except CommandError:
            continue
        lines = from_text(done.out)
        if done.code == 0 and lines:  # a journal that may not be read is empty, and no error
            return lines
    raise Unreadable(why)


def from_text(text: str) -> list[Line]:
    """Of dmesg, or of the journal with times since the start."""
    return [_line(each) for each in text.splitlines() if each.strip() and not each.startswith("-- ")]


def _line(text: str) -> Line:
    found = _SECONDS.match(text)
    return Line(float(found[1]), found[2]) if found else Line(None, text)


def _from_kmsg(path: Path) -> list[Line]:
    """Each read is one record, `priority,number,microseconds,flags;text`, until there is none at the moment."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    lines = []
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # it was overwritten: the next read goes on behind it
                    continue
                raise
            if not record:
                break
            head, _, text = record.decode(errors="replace").partition(";")
            fields = head.split(",")
            if len(fields) > 2 and fields[2].isdecimal():
                lines.append(Line(int(fields[2]) / 1e6, text.partition("\n")[0]))
    finally:
        os.close(descriptor)
    return lines
