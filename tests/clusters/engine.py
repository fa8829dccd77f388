"""The Docker engine of this machine, and the compose that goes with it."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut, ConfigurationError, ResilienceError

COMPOSES = (("docker", "compose"), ("docker-compose",))
"""The newer one first: the other is no longer maintained, but it is what distributions have."""


@dataclass(frozen=True, slots=True)
class Engine:
    version: str
    compose: tuple[str, ...]
    """Begins every compose command."""

    def docker(self, *argv: str, timeout_s: float = 60) -> Completed:
        """A command that must succeed. Raises ResilienceError."""
        answer = run(["docker", *argv], timeout_s=timeout_s)
        if answer.code != 0:
            raise ResilienceError(f"docker {argv[0]}: {answer.complaint}")
        return answer


def find_engine() -> Engine:
    """Raises ConfigurationError where no engine answers, or no compose is installed."""
    try:
        answer = run(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=20)
    except (CommandMissing, CommandTimedOut) as error:
        raise ConfigurationError(f"no Docker engine answers here: {error}") from error
    if answer.code != 0:
        raise ConfigurationError(f"no Docker engine answers here: {answer.complaint}")
    for words in COMPOSES:
        if _answers(words):
            return Engine(answer.out.strip(), words)
    raise ConfigurationError("there is a Docker engine here, but neither `docker compose` nor `docker-compose`")


def _answers(words: tuple[str, ...]) -> bool:
    try:
        return run([*words, "version"], timeout_s=20).code == 0
    except (CommandMissing, CommandTimedOut):
        return False
