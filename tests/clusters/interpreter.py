"""Which Python everybody on this machine may run with this repository."""

from __future__ import annotations

import os
import pwd
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.command import run
from slurm_resilience.errors import ResilienceError

ROOT = Path(__file__).parents[2]
CANDIDATES = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
NEEDED = "import slurm_resilience.cli.srun_resilient"
TORCH = "import torch, h5py, numpy, importlib.util as u; assert u.find_spec('sklearn')"


@dataclass(frozen=True, slots=True)
class Interpreter:
    program: str
    path: tuple[str, ...]
    """PYTHONPATH for it."""
    refused: str = ""
    """Why ordinary users can't use it; empty: they can."""

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join(self.path), "PYTHONDONTWRITEBYTECODE": "1"}

    def manages(self, statement: str, user: str | None = None) -> str:
        """The complaint; empty when all is well."""
        become = () if user is None else become_words(user)
        environment = {"PATH": os.defpath, **self.environment}
        try:
            answer = run([*become, self.program, "-c", statement], timeout_s=120, env=environment)
        except ResilienceError as error:
            return str(error)
        return "" if answer.code == 0 else answer.complaint


def choose_interpreter(user: str) -> Interpreter:
    """Ours, where `user` may run it; or the machine's own, with our packages: ours may lie where only root may look."""
    ours = Interpreter(sys.executable, (str(ROOT),))
    if pwd.getpwnam(user).pw_uid == os.geteuid():
        return ours
    complaints = []
    for program in CANDIDATES:
        packages = () if program == sys.executable else (sysconfig.get_path("purelib"),)
        interpreter = Interpreter(program, (str(ROOT), *packages))
        version = f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}, sys.version; "
        complaint = interpreter.manages(version + NEEDED, user)
        if not complaint:
            return interpreter
        complaints.append(complaint)
    return Interpreter(ours.program, ours.path, f"{user} can't use {ROOT}: {'; '.join(complaints)}")


def become_words(user: str) -> tuple[str, ...]:
    """Begins a command of that user; only for root."""
    entry = pwd.getpwnam(user)
    # setpriv keeps root's capabilities until its exec: only what env starts is refused what the user is refused.
    return ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "env")
