"""A machine that is what a test says: its /proc, /sys and commands are files in a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHECKS = Path(__file__).parents[2] / "spank" / "health.d"
TOOLS = "awk cat df find grep head id ls mktemp printf readlink rm sleep stat tail tr wc".split()
"""What the checks may take for granted. All else, nvidia-smi above all, is there only if a test puts it there."""

SHELLS: dict[str, list[str]] = {
    "sh": ["sh"],
    "bash": ["bash", "--posix"],
    "busybox": ["sh"],  # its tools with another shell: its own may prefer its own tools to what PATH says
    "gawk": ["sh"],
}
"""Whose sh and tools the checks run with, for they are others on every distribution."""


def installed(kind: str) -> bool:
    return shutil.which(kind) is not None


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    said: str


@dataclass(frozen=True, slots=True)
class Machine:
    folder: Path
    kind: str

    @property
    def proc(self) -> Path:
        return self.folder / "proc"

    @property
    def sys(self) -> Path:
        return self.folder / "sys"

    @property
    def commands(self) -> Path:
        return self.folder / "bin"

    def build(self) -> Machine:
        for name in ("proc", "sys", "etc", "run", "shm", "bin"):
            (self.folder / name).mkdir()
        for name in TOOLS:
            tool = "busybox" if self.kind == "busybox" else "gawk" if (self.kind, name) == ("gawk", "awk") else name
            found = shutil.which(tool)
            assert found is not None, tool
            (self.commands / name).symlink_to(found)
        self.write("proc/uptime", "10000.25 80000.00\n")
        return self

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def command(self, name: str, body: str) -> None:
        path = self.commands / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def command_says(self, name: str, text: str, code: int = 0) -> None:
        """A command that prints `text`, whatever it is asked."""
        said = self.write(f"said/{name}", text)
        self.command(name, f"while IFS= read -r line; do printf '%s\\n' \"$line\"; done <'{said}'\nexit {code}")

    def check(self, name: str, **settings: str) -> Answer:
        shell, *options = SHELLS[self.kind]
        found = shutil.which(shell)
        assert found is not None
        process = subprocess.Popen(
            [found, *options, str(CHECKS / name)],
            env={
                "PATH": str(self.commands),
                "LC_ALL": "C",
                "PROC": str(self.proc),
                "SYS": str(self.sys),
                "ETC": str(self.folder / "etc"),
                "RUN": str(self.folder / "run"),
                "SHM": str(self.folder / "shm"),
                "HEALTH_CONF": str(self.folder / "etc" / "health.conf"),
                **settings,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said, complained = process.communicate(timeout=100)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # as the gate does: a probe that hangs is left behind
        assert complained == "", "a check is silent but for its one line"
        assert said.count("\n") <= 1
        assert (process.returncode == 0) == (said == "")
        return Answer(process.returncode, said.rstrip("\n"))

    def process(self, pid: int, name: str, uid: int, parent: int = 1, rss_mib: int = 10, cgroup: str = "/") -> None:
        self.write(
            f"proc/{pid}/status",
            f"Name:\t{name}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t{parent}\n"
            f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmRSS:\t{rss_mib * 1024} kB\n",
        )
        self.write(f"proc/{pid}/cgroup", f"0::{cgroup}\n")


HEALTHY = Answer(0, "")
