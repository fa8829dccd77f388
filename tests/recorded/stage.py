"""Plays situations on a real cluster, each a job of an ordinary user on a node of its own, all at once."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster

OWNER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
"""An ordinary user owns the jobs; whoever watches and preempts is root. Begins commands of the owner."""
PREEMPT = (
    "sbatch",
    "-p",
    "high",
    "-w",
    "{node}",
    "--exclusive",
    "-J",
    "preemptor",
    "-o",
    "/dev/null",
    "--wrap",
    "sleep 1",
)
REQUEUE = ("scontrol", "requeue", "{id}")
CANCEL = ("scancel", "{id}")
WATCHED = "JobState Reason Restarts ExitCode Priority StartTime EndTime PreemptTime Requeue".split()

ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
)  # fmt: skip
PATIENCE_S = 15

Deed = tuple[str, tuple[str, ...]]
"""What is waited for, and what is done then: a command, with {id} and {node}, or one of ours (`Stage.do`).

Waited for is `STATE` or `STATE#RESTARTS`, or one of several (`A|B`); `*` after it: 2 s longer, for what the job itself
does first."""


class NeverHappened(Exception):
    pass


@dataclass(frozen=True)
class Situation:
    name: str
    script: str = "sleep 300"
    options: tuple[str, ...] = ()
    deeds: tuple[Deed, ...] = ()


def keep(moment: str) -> tuple[str, str]:
    """Keep what is answered at this moment."""
    return ("KEEP", moment)


@dataclass
class Stage:
    cluster: Cluster
    folder: Path
    keep: Callable[[str, str], None]
    """Called with `SITUATION.MOMENT` and the job's id."""
    jobs: dict[str, str] = field(default_factory=dict)
    notes: list[tuple[float, str, str]] = field(default_factory=list)

    def play(self, situations: Sequence[Situation]) -> None:
        """All of them, until every job is over (a job that is not after two minutes is cancelled) and for 5 s more."""
        stop = threading.Event()
        players = [
            threading.Thread(target=self._play, args=pair)
            for pair in zip(situations, self.cluster.node_names, strict=False)
        ]
        watcher = threading.Thread(target=self._watch, args=(stop,))
        for thread in (watcher, *players):
            thread.start()
        for player in players:
            player.join()
        time.sleep(5)
        stop.set()
        watcher.join()

    def note(self, name: str, text: str) -> None:
        self.notes.append((time.time(), name, text))

    def write_timelines(self) -> None:
        for name in self.jobs:
            lines = [(at, f"outside {text}") for at, whose, text in self.notes if whose == name]
            events = self.folder / f"{name}.events"
            if events.exists():
                said = (line.partition(" ") for line in events.read_text().splitlines())
                lines += [(float(at), f"inside {text}") for at, _, text in said]
                events.unlink()
            lines.sort()
            first = lines[0][0]
            text = "".join(f"{at - first:7.2f} {line}\n" for at, line in lines)
            (self.folder / f"{name}.timeline").write_text(text)

    def _play(self, situation: Situation, node: str) -> None:
        name = situation.name
        events = self.folder / f"{name}.events"
        script = self.folder / f"{name}.sh"
        script.write_text(
            f"#!/bin/bash\nEVENTS={events}\n"
            "say() { echo $(date +%s.%N) run ${SLURM_RESTART_COUNT:-0}: $* >> $EVENTS; }\n"
            f"{situation.script}\n"
        )
        answer = self.cluster.run(
            *OWNER,
            "sbatch",
            "--parsable",
            "-w",
            node,
            "-o",
            "/dev/null",
            "--chdir=/tmp",
            *situation.options,
            str(script),
        )
        script.unlink()
        self.note(name, f"sbatch {' '.join(situation.options)}: rc={answer.code} {' '.join(answer.err.split())}")
        job = answer.out.strip()
        self.jobs[name] = job
        try:
            for wanted, command in situation.deeds:
                self._wait(job, *wanted.rstrip("*").split("|"))
                time.sleep(1.5 + 2 * wanted.count("*"))  # what starts needs a moment, and so does slurmdbd
                self.do(name, command, job, node)
            self._wait(job, *ENDED, timeout_s=120)
        except NeverHappened as error:
            self.note(name, str(error))
            self.cluster.run("scancel", job)

    def do(self, name: str, command: tuple[str, ...], job: str, node: str) -> None:
        match command[0]:
            case "KEEP":
                self.keep(f"{name}.{command[1]}", job)
            case "KILL-SLURMD":
                self.cluster.kill_slurmd(node)
                self.note(name, "slurmd killed")
            case "START-SLURMD":
                self.cluster.daemons.start_node(node)  # others are meant to stay dead
                self.note(name, "slurmd started")
            case _:
                argv = [word.format(id=job, node=node) for word in command]
                answer = self.cluster.run(*argv, timeout_s=60)
                who = "owner" if command[: len(OWNER)] == OWNER else "root"
                shown = " ".join(argv[len(OWNER) :] if who == "owner" else argv)
                said = " ".join((answer.out + answer.err).split())
                self.note(name, f"{who}: {shown}: rc={answer.code} {said}")

    def _wait(self, job: str, *wanted: str, timeout_s: float = 150) -> None:
        """Until the job, or an element of it, is in one of these states; not for ever when it has ended otherwise."""
        deadline = time.monotonic() + timeout_s
        ended_at: float | None = None
        while True:
            asked = self.cluster.run("squeue", "-h", "-r", "-t", "all", "-j", job, "--Format=State:40,RestartCnt:10")
            found = [tuple(line.split()[:2]) for line in asked.out.splitlines()]
            ended = bool(found) and all(state in ENDED for state, _ in found)
            if wanted == ENDED:
                if ended:
                    return
            elif any(state in wanted or f"{state}#{restarts}" in wanted for state, restarts in found):
                return
            if not ended:
                ended_at = None
            elif ended_at is None:
                ended_at = time.monotonic()
            elif time.monotonic() > ended_at + PATIENCE_S:
                deadline = 0
            if time.monotonic() > deadline:
                raise NeverHappened(f"job is {' '.join('#'.join(pair) for pair in found)}, never {' '.join(wanted)}")
            time.sleep(0.1)

    def _watch(self, stop: threading.Event) -> None:
        seen: dict[str, dict[str, str]] = {}
        while not stop.wait(0.4):
            names = {job: name for name, job in self.jobs.items()}
            for line in self.cluster.run("scontrol", "-o", "show", "jobs").out.splitlines():
                found = dict(re.findall(r"(\S+?)=(\S*)", line))
                job = found.get("JobId", "")
                name = names.get(found.get("ArrayJobId", job))
                if name is None:
                    continue
                before = seen.get(job, {})
                changed = " ".join(
                    f"{key}={found.get(key, '-')}" for key in WATCHED if found.get(key) != before.get(key)
                )
                if changed:
                    self.note(name, changed)
                seen[job] = found
