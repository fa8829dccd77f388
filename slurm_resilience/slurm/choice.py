"""Which client asks Slurm: its commands, or pyslurm where SLURM_RESILIENCE_SLURM_CLIENT says so.

    commands    the default
    pyslurm     pyslurm where it can be loaded
    auto        pyslurm where it can be loaded and was built for the release that the controller is of

Without one of the last two words nothing of pyslurm is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut, ConfigurationError, SlurmError
from slurm_resilience.slurm.client import SlurmClient
from slurm_resilience.slurm.command_line import CommandLineSlurm

VARIABLE = "SLURM_RESILIENCE_SLURM_CLIENT"
_WORDS = ("commands", "pyslurm", "auto")
_LOAD_S = 10.0
"""Loading takes 0.1 s where a slurm.conf is found, and a minute where there is none."""

Runner = Callable[..., Completed]


@dataclass(frozen=True, slots=True)
class Loads:
    version: str
    """pyslurm's own; its first two numbers are the release of Slurm that it was built for."""

    @property
    def release(self) -> tuple[int, int]:
        """(24, 5) of `24.5.1`, as SlurmConfiguration.release has it of `24.05.3`; (0, 0) of what is no version."""
        numbers = self.version.split(".")
        if len(numbers) < 2 or not (numbers[0].isdigit() and numbers[1].isdigit()):
            return (0, 0)
        return int(numbers[0]), int(numbers[1])


@dataclass(frozen=True, slots=True)
class DoesNotLoad:
    why: str


def choose_client(
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
    timeout_s: float = 25.0,
    runner: Runner = run,
) -> SlurmClient:
    """The commands where pyslurm was asked for and is of no use; `say` is told once why.

    Raises ConfigurationError where the variable holds another word.
    """
    commands = CommandLineSlurm(environment=environment, timeout_s=timeout_s, runner=runner)
    word = environment.get(VARIABLE, "") or "commands"
    if word not in _WORDS:
        raise ConfigurationError(f"{VARIABLE} is {word!r}: it may be one of {', '.join(_WORDS)}")
    if word == "commands":
        return commands
    objection = _objection(probe(environment, runner=runner), commands if word == "auto" else None)
    if objection is not None:
        say(f"{VARIABLE} is {word!r}, but Slurm's commands are used: {objection}")
        return commands
    from slurm_resilience.slurm.pyslurm_client import PySlurmClient

    return PySlurmClient(commands, environment=environment, say=say, timeout_s=timeout_s, runner=runner)


def probe(environment: Mapping[str, str], *, runner: Runner = run) -> Loads | DoesNotLoad:
    """Whether pyslurm can be loaded here, found out in a child. Never raises a SlurmError."""
    from slurm_resilience.slurm.pyslurm_client import ask_child, said_by

    try:
        done = ask_child(runner, "version", "-", environment, _LOAD_S)
    except CommandTimedOut:
        return DoesNotLoad(f"pyslurm was not loaded within {_LOAD_S:g} s; has this host a slurm.conf?")
    except CommandMissing as error:
        return DoesNotLoad(str(error))
    match said_by(done):
        case {"version": str(version)}:
            return Loads(version)
        case {"unfit": str(why)}:
            return DoesNotLoad(f"pyslurm {why}")
        case _:
            return DoesNotLoad(f"pyslurm can't be loaded ({done.complaint})")


def _objection(found: Loads | DoesNotLoad, same_release_as: SlurmClient | None) -> str | None:
    match found:
        case DoesNotLoad(why):
            return why
        case Loads(version) if same_release_as is not None:
            try:
                controllers = same_release_as.configuration()
            except SlurmError as error:
                return f"the controller's version is not known ({error})"
            if found.release != controllers.release or found.release == (0, 0):
                return f"pyslurm {version} is not for Slurm {controllers.version}"
            return None
        case Loads():
            return None
