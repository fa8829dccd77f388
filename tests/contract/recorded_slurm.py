"""Answers of a real Slurm's commands, recorded one file a promise, and given again in the same order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandTimedOut
from slurm_resilience.slurm.client import JobRef, Submission
from slurm_resilience.slurm.command_line import CommandLineSlurm
from tests.contract.slurm_scene import SCRIPT, T


@dataclass
class Recording:
    """What was asked and answered while one promise was kept, and which jobs the scene had made for it."""

    kill_wait_s: int
    node_names: tuple[str, ...]
    jobs: list[str] = field(default_factory=list)
    asked: list[dict[str, object]] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, **more: str
    ) -> Completed:
        """A runner that asks the real command, and keeps what it said."""
        try:
            done = run(argv, timeout_s=timeout_s, env=env, **more)
        except CommandTimedOut as error:
            self.asked.append({"argv": list(argv), "timed_out": str(error)})
            raise
        self.asked.append({"argv": list(argv), "code": done.code, "out": done.out, "err": done.err})
        return done

    def write(self, path: Path) -> None:
        value = {"kill_wait_s": self.kill_wait_s, "node_names": self.node_names, "jobs": self.jobs, "asked": self.asked}
        path.write_text(json.dumps(value, indent=1) + "\n")


class ReplayedScene:
    """A SlurmScene over one recording: whatever is asked for was made when it was recorded."""

    def __init__(self, path: Path) -> None:
        recorded = json.loads(path.read_text())
        self.kill_wait_s: int = recorded["kill_wait_s"]
        self.node_names: tuple[str, ...] = tuple(recorded["node_names"])
        self.client = CommandLineSlurm(environment={}, runner=self._answer)
        self._jobs: list[str] = recorded["jobs"]
        self._asked: list[dict[str, object]] = recorded["asked"]

    def _answer(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str], **more: str) -> Completed:
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

    def listening(self) -> JobRef:
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

    def submission(self, *options: str, script: str = SCRIPT) -> Submission:
        return submission(options, script, {})

    def started(self, job: JobRef) -> None:
        """It was waited for when it was recorded."""

    def over(self, job: JobRef) -> None:
        """As `started`."""

    def settled(self, job: JobRef) -> None:
        """As `started`."""

    def while_drained(self, node: str, reason: str, ask: Callable[[], T]) -> T:
        return ask()

    def while_silent(self, ask: Callable[[], T], *, hasty: bool = False) -> T:
        return ask()


def submission(options: Sequence[str], script: str, environment: Mapping[str, str]) -> Submission:
    """What can be queued on any cluster, told with the same words when it is recorded and when it is replayed."""
    place = ("--partition=low", "--chdir=/tmp", "--output=/dev/null", "--job-name=queued")
    return Submission(script, (*place, *options), environment)
