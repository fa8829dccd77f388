"""The job's `--signal`, as far as it can be known: `[{R|B}:]SIGNAL[@SECONDS]`. Pure.

Slurm shows it nowhere (22.05 to 25.11). It stands in the batch script, or in sbatch's environment, which the job
inherits; what was given on sbatch's command line stays unknown.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from slurm_resilience.launch.srun_options import SrunLine
from slurm_resilience.signals.user_signal import UserSignal

DEFAULT_LEAD_S = 60.0
LONGEST_LEAD_S = 65535
_NUMBERS = {1: "HUP", 2: "INT", 3: "QUIT", 6: "ABRT", 9: "KILL", 10: "USR1", 12: "USR2", 15: "TERM", 18: "CONT"}
"""Linux's, on every machine that Slurm's clusters are made of."""


def understand(text: str, source: str) -> UserSignal | None:
    """None where sbatch would not have taken it."""
    flags, colon, rest = text.strip().rpartition(":")
    if colon and set(flags.upper()) - set("BR:"):
        return None
    name, at, lead = rest.partition("@")
    if at and not (lead.isdecimal() and int(lead) <= LONGEST_LEAD_S):
        return None
    if name.isdecimal():
        name = _NUMBERS.get(int(name), name)
    name = name.upper().removeprefix("SIG")
    if not name:
        return None
    return UserSignal(name, float(lead) if at else DEFAULT_LEAD_S, "B" in flags.upper(), source)


def in_script(script: str) -> str | None:
    """The value of the last `#SBATCH --signal` before the first command, as sbatch reads them."""
    found = None
    for line in script.splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        try:
            words = shlex.split(line[len("#SBATCH") :], comments=True)
        except ValueError:  # an open quote: sbatch has refused it or read something else
            continue
        for number, word in enumerate(words):
            name, equals, value = word.partition("=")
            if name != "--signal":
                continue
            if equals:
                found = value
            elif number + 1 < len(words):
                found = words[number + 1]
    return found


def signal_of_job(script: str | None, environment: Mapping[str, str]) -> UserSignal | None:
    """A batch job's: sbatch's environment outranks the script. None: none is known."""
    inherited = environment.get("SBATCH_SIGNAL")
    if inherited:
        return understand(inherited, "SBATCH_SIGNAL")
    written = in_script(script) if script is not None else None
    return understand(written, "#SBATCH --signal") if written else None


def signal_of_srun(line: SrunLine) -> UserSignal | None:
    """Of an allocation that srun itself asks for; inside a job srun's --signal does nothing."""
    value = line.value("signal")
    return understand(value, "srun's --signal") if value else None
