"""Answers of a real Slurm's commands, recorded one file a promise, and given again in the same order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandTimedOut
from slurm_resilience.slurm.client import JobRef
from slurm_resilience.slurm.command_line import CommandLineSlurm
from tests.contract.slurm_scene import T


@dataclass
class Recording:
    """What was asked and answered while one promise was kept, and which jobs the scene had made for it."""

    kill_wait_s: int
    jobs: list[str] = field(default_factory=list)
    asked: list[dict[str, object]] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Completed:
        """A runner that asks the real command, and keeps what it said."""
        try:
            done = run(argv, timeout_s=timeout_s, env=env)
        except CommandTimedOut as error:
            self.asked.append({"argv": list(argv), "timed_out": str(error)})
            raise
        self.asked.append({"argv": list(argv), "code": done.code, "out": done.out, "err": done.err})
        return done

    def write(self, path: Path) -> None:
        value = {"kill_wait_s": self.kill_wait_s, "jobs": self.jobs, "asked": self.asked}
        path.write_text(json.dumps(value, indent=1) + "\n")


class ReplayedScene:
    """A SlurmScene over one recording: whatever is asked for was made when it was recorded."""

    def __init__(self, path: Path) -> None:
        recorded = json.loads(path.read_text())
        self.kill_wait_s: int = recorded["kill_wait_s"]
        self.client = CommandLineSlurm(environment={}, runner=self._answer)
        self._jobs: list[str] = recorded["jobs"]
        self._asked: list[dict[str, object]] = recorded["asked"]

    def _answer(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> Completed:
        answer = self._asked.pop(0)
        assert list(argv) == answer["argv"], "another question than the one that was recorded: record again"
        if "timed_out" in answer:
            raise CommandTimedOut(str(answer["timed_out"]))
        code = answer["code"]
        assert isinstance(code, int)
        return Completed(tuple(argv), code, str(answer["out"]), str(answer["err"]))

    def _next(self) -> JobRef:
        return JobRef(self._jobs.pop(0))

    def running(self, *, name: str = "plain", requeue: bool = True) -> JobRef:
        return self._next()

    def array(self) -> tuple[JobRef, JobRef]:
        return self._next(), self._next()

    def held(self) -> JobRef:
        return self._next()

    def waiting(self) -> JobRef:
        return self._next()

    def ended(self, code: int) -> JobRef:
        return self._next()

    def killed(self) -> JobRef:
        return self._next()

    def cancelled(self) -> JobRef:
        return self._next()

    def preempted(self) -> JobRef:
        return self._next()

    def unknown(self) -> JobRef:
        return self._next()

    def settled(self, job: JobRef) -> None:
        """It was waited for when it was recorded."""

    def while_silent(self, ask: Callable[[], T]) -> T:
        return ask()
