"""How Slurm's commands are run, and what their failures mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_resilience.command import Completed, run, signal_name
from slurm_resilience.errors import CommandMissing, CommandTimedOut, SlurmRejected, SlurmUnavailable

Runner = Callable[..., Completed]

_OBEYED = ("SQUEUE_", "SCONTROL_", "SACCT_", "SACCTMGR_", "SINFO_", "SBATCH_", "SCANCEL_")
"""Variables by which a user changes what Slurm's commands print and do."""
_TIMES = "SLURM_TIME_FORMAT"
_SILENCE = (
    "unable to contact slurm controller",
    "connection refused",
    "socket timed out",
    "connection timed out",
    "unexpected message received",  # what a dead controller makes of `scontrol requeue` (field note P8)
    "zero bytes were transmitted",
    "communication connection failure",
    "communication shutdown",
    "slurm backup controller in standby mode",
    "message receive failure",
    "send/recv operation",
    "no route to host",
    "temporarily unable to accept",
    "resource temporarily unavailable",
    "unable to contact slurm database",
    "slurmdbd: getting response",
    "connection to slurmdbd",
    "unable to retrieve slurmdbd",
    "authentication error",  # munge is down, or the key of auth/slurm gone: not the word of a controller
    "munge encode failed",
    "problem talking to the database",
    "try again later",  # "Job can not be altered now, …": between two states, at a burst buffer's stage-out, say
)
NOT_KNOWN = ("invalid job id",)
_ENDED_BY = frozenset(128 + number for number in (1, 2, 3, 9, 10, 12, 15))
"""What a command leaves with that a signal has ended: Slurm may signal every process of a job, ours among them."""


def own_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """`inherited` without what would change the answers."""
    kept = {name: value for name, value in inherited.items() if not name.startswith(_OBEYED) and name != _TIMES}
    return kept | {"LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs one command and returns its answer, or raises SlurmUnavailable or SlurmRejected."""

    environment: Mapping[str, str] = field(default_factory=lambda: own_environment(os.environ))
    timeout_s: float = 25.0
    runner: Runner = run

    def ask(
        self,
        argv: Sequence[str],
        *,
        fine: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        given: str | None = None,
        any_bytes: bool = False,
    ) -> Completed:
        """`fine`: words of a refusal (in lower case) that is an answer here, without output. `given`: what it reads.

        `any_bytes`: what is no UTF-8 comes and goes unchanged, as surrogates.
        """
        more = ({} if given is None else {"given": given}) | ({"undecodable": "surrogateescape"} if any_bytes else {})
        try:
            done = self.runner(argv, timeout_s=self.timeout_s, env=self.environment if env is None else env, **more)
        except CommandTimedOut as error:
            raise SlurmUnavailable(str(error)) from error
        except CommandMissing as error:
            raise SlurmUnavailable(f"{error}: Slurm can't be asked from this host") from error
        if done.code == 0:
            return done
        said = f"{done.err}\n{done.out}".lower()
        if any(words in said for words in fine) and not _is_silence(said):
            return Completed(done.argv, 0, "", done.err)
        raise failure(done)


def failure(done: Completed) -> SlurmUnavailable | SlurmRejected:
    """What an answer that is none means, whatever the command left with."""
    if _is_silence(f"{done.err}\n{done.out}".lower()):
        return SlurmUnavailable(f"Slurm's controller does not answer: {done.complaint}")
    if done.code in _ENDED_BY:  # no word of the controller's, and it may have been done
        name = signal_name(done.code - 128)
        return SlurmUnavailable(f"`{' '.join(done.argv)}` was ended by {name}: whether it was done is not known")
    return SlurmRejected(f"Slurm refused `{' '.join(done.argv)}`: {done.complaint}")


def _is_silence(said: str) -> bool:
    return any(words in said for words in _SILENCE)
