"""What a test does with jobs on a real cluster, each in one call that is bounded in time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slurm_resilience.command import Completed
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.process import Process, processes_with

POLL_S = 0.1
PATIENCE_S = 120.0
"""For what must happen: a wait ends at once when it has. Some things take Slurm a minute, and it isn't alone here."""
LONG_KILL_WAIT, LONG_KILL_WAIT_S = "-long-kill-wait", 60
"""Of the cluster for tests in which KillWait is all that ranks with torch have to stop and save: where Slurm's SIGTERM
goes to the batch script, too. Of 10 s they get 4, and what is lost on a busy machine then is lost by right."""
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)


class NeverHappened(AssertionError):
    pass


def wait_until(happened: Callable[[], bool], what: str | Callable[[], str], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() > deadline:
            raise NeverHappened(f"within {timeout_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_S)


class Commands(Protocol):
    """All that jobs need of a cluster: to run its client commands."""

    def run(self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None) -> Completed: ...


_WAITS = re.compile(r"^srun: .*(?:step creation temporarily disabled|Step created for ).*\n", re.MULTILINE)
"""A step that finds the one before not quite gone says that it waits; or it doesn't find it."""


def without_waiting(output: str) -> str:
    return _WAITS.sub("", output)


@dataclass(frozen=True)
class JobsOn:
    """Jobs on any cluster; on the sandbox's, where tests also take daemons away, it is `Jobs`."""

    cluster: Commands
    folder: Path
    """Where outputs go: one folder per test."""

    def submit(
        self,
        script: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        marker: str | None = None,
        **options: object,
    ) -> str:
        """Queue a batch job; its job id.

        `script` is the text of a batch script (a shebang is added where there is none) or one command for --wrap.
        Options become sbatch's: nodes=2 is --nodes=2, requeue=True is --requeue. `marker` is set as TEST_MARKER in the
        job, for `leftovers`.
        """
        given: dict[str, object] = {"open_mode": "append", "chdir": str(self.folder), **options}
        given.setdefault("output", str(self.folder / "%x-%A.out"))
        argv = ["sbatch", "--parsable"]
        for name, value in given.items():
            flag = "--" + name.replace("_", "-")
            if value is True:
                argv.append(flag)
            elif value is not False and value is not None:
                argv.append(f"{flag}={value}")
        if not isinstance(script, str):
            script = " ".join(_quoted(word) for word in script)
        if not script.startswith("#!"):
            script = f"#!/bin/bash\n{script}"
        path = self.folder / f"script-{time.monotonic_ns()}.sh"
        path.write_text(script)
        extra = dict(env or {})
        if marker is not None:
            extra["TEST_MARKER"] = marker
        # Not --export=ALL,NAME=value: that makes slurmd open a login shell of the user, which takes seconds.
        answer = self.ask(*argv, str(path), env=extra)
        return answer.out.strip().partition(";")[0]

    def ask(self, *argv: str, timeout_s: float = 30, env: Mapping[str, str] | None = None) -> Completed:
        """Run a client command that must succeed."""
        answer = self.cluster.run(*argv, timeout_s=timeout_s, env=env)
        assert answer.code == 0, answer.complaint
        return answer

    def show(self, job: str) -> dict[str, str]:
        """Every field of the first line of `scontrol -o show job`; empty when the controller does not know the job."""
        answer = self.cluster.run("scontrol", "-o", "show", "job", job)
        if answer.code != 0:
            return {}
        lines = answer.out.strip().splitlines()
        return dict(re.findall(r"(\S+?)=(\S*)", lines[0])) if lines else {}

    def state(self, job: str) -> str:
        """In long form, such as RUNNING or COMPLETING; empty when the controller does not know the job."""
        return self.cluster.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").out.strip()

    def wait_state(self, job: str, *states: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait until the job is in one of these states, and say in which."""
        seen: list[str] = []

        def there() -> bool:
            seen[:] = [self.state(job)]
            return seen[0] in states

        wait_until(
            there,
            lambda: f"job {job} is {seen[0]} and not {' or '.join(states)}; output: {self.output(job)[-2000:]}",
            timeout_s,
        )
        return seen[0]

    def wait_end(self, job: str, *, timeout_s: float = PATIENCE_S) -> str:
        return self.wait_state(job, *ENDED, timeout_s=timeout_s)

    def wait_restarts(self, job: str, restarts: int, *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the job runs again for the `restarts`-th time, or has: a short life may be missed."""
        begun = ("RUNNING", "COMPLETED")
        wait_until(
            lambda: (shown := self.show(job)).get("Restarts") == str(restarts) and shown.get("JobState") in begun,
            lambda: f"job {job} does not run with {restarts} restarts: {self.show(job)}",
            timeout_s,
        )

    def preempt(self, job: str, *, hold_s: float = 0.5) -> str:
        """Queue a job of higher priority that wants the nodes of `job`; its id. It ends `hold_s` after it started."""
        shown = self.show(job)
        nodes, count = shown["NodeList"], shown["NumNodes"].partition("-")[0]
        return self.submit(
            f"sleep {hold_s}", partition="high", nodelist=nodes, nodes=count, exclusive=True, job_name="preemptor"
        )

    def cancel(self, *jobs: str) -> None:
        self.ask("scancel", *jobs)

    def requeue(self, job: str) -> Completed:
        return self.cluster.run("scontrol", "requeue", job)

    def output(self, job: str) -> str:
        """What the job, in all its attempts, has written so far; its default output file only."""
        paths = sorted(self.folder.glob(f"*-{job}.out"))
        return without_waiting("".join(path.read_text(errors="replace") for path in paths))

    def wait_output(self, job: str, text: str, *, timeout_s: float = PATIENCE_S) -> str:
        """Wait until the job has written `text`; the whole output."""
        wait_until(
            lambda: text in self.output(job),
            lambda: f"job {job} ({self.state(job)}) never wrote {text!r}, but: {self.output(job)[-2000:]}",
            timeout_s,
        )
        return self.output(job)

    def clear(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Cancel every job and wait until there is none and all nodes are idle again."""

        def clear() -> bool:
            """Looks again each time: what is being killed may still have queued a job."""
            queued = self.ask("squeue", "-h", "-o", "%A").out.split()
            if queued:
                self.cluster.run("scancel", *queued)
                self.cluster.run("scancel", "-s", "KILL", "-f", *queued)  # no need to wait for KillWait
            return not queued and set(self.node_states().values()) == {"idle"}

        wait_until(clear, lambda: f"the nodes are {self.node_states()}", timeout_s)

    def node_states(self) -> dict[str, str]:
        """What the controller says of each node; empty when it doesn't answer."""
        answer = self.cluster.run("sinfo", "-h", "-N", "-o", "%N %T")
        lines = answer.out.splitlines() if answer.code == 0 else []
        return {name: state for name, _, state in (line.strip().partition(" ") for line in lines)}


@dataclass(frozen=True)
class Jobs(JobsOn):
    cluster: Cluster

    def start_slurmds(self) -> None:
        """Start those that are dead, and wait until the controller has heard of them."""
        for node in self.cluster.node_names:
            if not self.cluster.slurmd_alive(node):
                self.cluster.start_slurmd(node)


def leftovers(marker: str) -> list[Process]:
    """Processes that still carry this TEST_MARKER."""
    return list(processes_with(lambda _, environment: environment.get("TEST_MARKER") == marker))


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
