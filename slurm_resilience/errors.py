"""Every error a user can meet, with the exit code it leaves by.

    ResilienceError
    ├── ConfigurationError          78  the run is asked for in a way that can't work
    ├── RunOwned                    79  another live attempt owns the run
    ├── ManifestError               78
    │   ├── ManifestDamaged             a line before the last is not what was written
    │   ├── ManifestUnsupported         written by a format we don't know
    │   └── ManifestUnavailable         the file system says no, for now: may be retried
    ├── Fenced                      79  a newer attempt has started: this one may not write
    ├── CheckpointError              1
    │   ├── CheckpointDamaged           content is not what was written
    │   ├── CheckpointUnsupported       written by a format, or holding a value, we don't know
    │   ├── CheckpointMismatch          whole, but not for this training (ranks, names, shapes)
    │   └── CheckpointUnavailable       the file system says no, for now: may be retried
    ├── NothingToResume             78  the run has had checkpoints and none can be loaded
    ├── CommandError                 1
    │   ├── CommandMissing              no such program
    │   └── CommandTimedOut             no answer in time
    └── SlurmError                   1
        ├── SlurmUnavailable            the controller doesn't answer: may be retried
        ├── SlurmRejected               the controller says no
        └── SlurmUnparsable             an answer we can't read: never guessed at

Only errors called ...Unavailable may be retried. A message is one sentence that names the thing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

EXIT_FINISHED = 0
EXIT_WILL_GO_ON = 75
EXIT_WILL_NOT_GO_ON = 76
EXIT_PREFLIGHT = 77
EXIT_CONFIGURATION = 78
EXIT_OWNED = 79


class ResilienceError(Exception):
    exit_code = 1


class ConfigurationError(ResilienceError):
    exit_code = EXIT_CONFIGURATION


class RunOwned(ResilienceError):
    exit_code = EXIT_OWNED

    def __init__(self, run: Path, owner: str) -> None:
        super().__init__(f"run {run} belongs to a live attempt: {owner}")
        self.run = run
        self.owner = owner

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, self.owner)


class ManifestError(ResilienceError):
    exit_code = EXIT_CONFIGURATION


class ManifestDamaged(ManifestError):
    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(f"{path}, line {line}: {why}")
        self.path = path
        self.line = line
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.line, self.why)


class ManifestUnsupported(ManifestError):
    pass


class ManifestUnavailable(ManifestError):
    pass


class Fenced(ResilienceError):
    exit_code = EXIT_OWNED

    def __init__(self, mine: int, newest: int) -> None:
        super().__init__(f"attempt {mine} may not write any more: attempt {newest} has started")
        self.mine = mine
        self.newest = newest

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mine, self.newest)


class CheckpointError(ResilienceError):
    pass


class CheckpointDamaged(CheckpointError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.why)


class CheckpointUnsupported(CheckpointError):
    pass


class CheckpointMismatch(CheckpointError):
    pass


class CheckpointUnavailable(CheckpointError):
    pass


class NothingToResume(ResilienceError):
    exit_code = EXIT_CONFIGURATION


class CommandError(ResilienceError):
    pass


class CommandMissing(CommandError):
    pass


class CommandTimedOut(CommandError):
    pass


class SlurmError(ResilienceError):
    pass


class SlurmUnavailable(SlurmError):
    pass


class SlurmRejected(SlurmError):
    pass


class SlurmUnparsable(SlurmError):
    pass
