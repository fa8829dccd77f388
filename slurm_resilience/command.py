"""The one door to other programs: lists, never a shell, never without a time-out."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_resilience.errors import CommandMissing, CommandTimedOut


@dataclass(frozen=True, slots=True)
class Completed:
    argv: tuple[str, ...]
    code: int
    """As the shell would say it: 128 + n for a signal."""
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last thing the program said about its failure, on one line."""
        said = (self.err.strip() or self.out.strip() or "no message").splitlines()
        last = said[-1].strip().encode(errors="replace").decode()
        return f"{self.argv[0]} left with {self.code}: {last}"


def signal_name(number: int) -> str:
    """`SIGTERM`; `signal 99` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
    undecodable: str = "replace",
) -> Completed:
    """Run `argv` to its end and return what it said, whatever its exit code.

    `given` is what it reads; bytes that are no UTF-8 come and go as surrogates where `undecodable` is surrogateescape.
    Raises CommandMissing and CommandTimedOut (the program is killed then).
    """
    try:
        done = subprocess.run(
            list(argv),
            check=False,
            capture_output=True,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            timeout=timeout_s,
            env=None if env is None else dict(env),
            encoding="utf-8",
            errors=undecodable,
        )
    except FileNotFoundError as error:
        raise CommandMissing(f"there is no program {argv[0]!r} here") from error
    except PermissionError as error:
        raise CommandMissing(f"program {argv[0]!r} may not be run here") from error
    except OSError as error:  # no process to be had at this moment, say
        raise CommandMissing(f"program {argv[0]!r} can't be run here: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise CommandTimedOut(f"{' '.join(argv)} did not answer within {timeout_s:g} s") from error
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Completed(tuple(argv), code, done.stdout, done.stderr)
