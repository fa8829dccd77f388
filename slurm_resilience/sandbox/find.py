"""Is Slurm here, and which one?"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.command import run
from slurm_resilience.errors import ConfigurationError, SlurmUnparsable

PACKAGE_OF = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sinfo": "slurm-client",
    "sbatch": "slurm-client",
    "scontrol": "slurm-client",
    "munged": "munge",
}
"""The programs a sandbox needs, each with its package in Debian and Ubuntu."""

SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin", "/usr/local/bin", "/bin")
"""An ordinary user's PATH seldom has sbin, where distributions put the daemons."""


@dataclass(frozen=True, slots=True)
class Installation:
    programs: Mapping[str, Path]
    version: tuple[int, int]
    """(22, 5) for 22.05.8."""
    version_text: str

    @property
    def path_additions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(program.parent) for program in self.programs.values()))


def find_slurm(folders: Sequence[str] | None = None) -> Installation:
    """Look in these folders; in PATH and the system's own when None.

    Raises ConfigurationError naming the packages that are missing.
    """
    if folders is None:
        folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM_FOLDERS]
    path = os.pathsep.join(folders)
    found = {name: shutil.which(name, path=path) for name in PACKAGE_OF}
    missing = [name for name, where in found.items() if where is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGE_OF[name] for name in missing))
        raise ConfigurationError(
            f"a sandbox needs {', '.join(missing)}, which this machine does not have:"
            f" apt-get install --no-install-recommends {packages}"
        )
    programs = {name: Path(where) for name, where in found.items() if where is not None}
    answer = run([str(programs["slurmctld"]), "-V"], timeout_s=10)
    return Installation(programs, parse_version(answer.out), answer.out.strip())


def parse_version(text: str) -> tuple[int, int]:
    """`slurm-wlm 22.05.8` and `slurm 24.11.5` to (22, 5) and (24, 11). Raises SlurmUnparsable."""
    match = re.search(r"(\d+)\.(\d+)(?:\.\d+|-\d+|rc\d+|-?pre)", text)
    if match is None:
        raise SlurmUnparsable(f"no version of Slurm in {text.strip()!r}")
    return int(match[1]), int(match[2])
