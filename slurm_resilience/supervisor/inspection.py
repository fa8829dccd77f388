"""Preflight as a part of an attempt: between its first line in the journal and its step.

What it came to is written into the attempt's folder before anything follows from it; the end of the attempt is told
from there, by us or by whoever does it in our place.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from slurm_resilience.clock import Clock
from slurm_resilience.errors import SlurmError
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.preflight_verdict import PreflightVerdict, Then, read_verdict, write_verdict
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.preflight.report import Report
from slurm_resilience.requeue.decision import Way
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.fitness import NotRun, Room, weigh
from slurm_resilience.supervisor.notices import Notices
from slurm_resilience.supervisor.preflight_child import Interrupted, PreflightChild
from slurm_resilience.supervisor.preparation import Granted
from slurm_resilience.supervisor.request import Preflighting, Request
from slurm_resilience.supervisor.step import StepEnd
from slurm_resilience.supervisor.surroundings import Mode, Shape

FAILED = 2
"""Preflight's exit code for a failure; above it, it could not run."""
_NAMED_BY_USER = frozenset({"nodelist", "nodefile", "relative"})
"""srun's options by which the step's nodes are chosen already."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """The step may start."""

    without: tuple[str, ...] = ()


Inspected = Union[Cleared, StepEnd]


@dataclass(frozen=True, slots=True)
class Inspection:
    request: Request
    mode: Mode
    shape: Shape
    """Of the step."""
    facts: JobFacts | None
    clock: Clock
    environment: Mapping[str, str]
    run: RunDirectory
    say: Callable[[str], None]
    program: tuple[str, ...] = (sys.executable, "-m", "slurm_resilience.cli.main", "preflight")

    def inspect(
        self,
        number: int,
        chain: Chain | None,
        granted: Granted,
        stop_before_end_s: float,
        way: Callable[[Cause], Way],
        preempting: Callable[[], bool],
        notices: Notices,
        heard: Sequence[signal.Signals],
    ) -> Inspected:
        """Runs it, says what came of it, and writes that down. StepEnd: the attempt is over, without a step.

        `heard`: signals that came before; they are for the step. `preempting`: asks Slurm; raises SlurmError.
        """
        asked = self.request.preflight
        if asked is None or heard:
            return Cleared()
        skipped = self._why_not(asked, granted, stop_before_end_s)
        if skipped is not None:
            self.say(f"no preflight: {skipped}")
            return Cleared()
        elsewhere = way(Cause.NODE_FAILURE) in (Way.REQUEUE, Way.CHAIN)
        if self.mode is Mode.LOGIN:
            why = "srun gets its nodes only together with the training; use sbatch or salloc"
            found: Report | NotRun | Interrupted = NotRun(why)
        else:
            self.say(f"preflight: looking at {self._whom()}")
            found = self._child(number, chain, asked).watch(notices)
        if isinstance(found, Interrupted):
            return self._interrupted(number, found, granted)
        if (isinstance(found, NotRun) or found.exit_code >= FAILED) and _is_so(preempting):
            # In a grace Slurm signals the steps alone: preflight's died of it, whatever it says of its nodes.
            self.say("Slurm is preempting the job: the training is not started")
            return StepEnd(None, (), None, in_grace=True, started=False)
        before = read_verdict(self.run, number - 1)
        verdict = weigh(found, wish=asked.wish, room=self._room(elsewhere), before=before)
        return self._obey(number, verdict)

    def description(self, number: int, chain: Chain | None) -> list[str]:
        """For `--dry-run`."""
        asked = self.request.preflight
        if asked is None:
            return []
        line = " ".join(self._argv(number, chain, asked))
        return [f"before every step (--on-preflight={asked.wish.value}): {line}"]

    def _whom(self) -> str:
        count = self.facts.node_count if self.facts is not None else 1
        return "this node" if count == 1 else f"the {count} nodes of job {self.facts.job if self.facts else ''}"

    def _why_not(self, asked: Preflighting, granted: Granted, stop_before_end_s: float) -> str | None:
        ends_s = granted.times.end_s
        if ends_s is None:
            return None
        left_s = ends_s - self.clock.now_s()
        needed_s = asked.time_limit_s + stop_before_end_s
        if left_s >= needed_s:
            return None
        return f"the job has {left_s:.0f} s left, and preflight and a save may take {needed_s:.0f} s"

    def _room(self, elsewhere: bool) -> Room:
        of_job = self.facts.node_count if self.facts is not None else 1
        named = any(option.name in _NAMED_BY_USER for option in self.request.srun.options)
        return Room(self.shape.nodes, self.shape.nodes < of_job and not named, elsewhere)

    def _child(self, number: int, chain: Chain | None, asked: Preflighting) -> PreflightChild:
        folder = self.run.attempt(number)
        return PreflightChild(
            self._argv(number, chain, asked),
            self.environment,
            folder / "preflight_report.json",
            folder / "preflight.log",
            asked.time_limit_s,
            self.run.stop_file.exists,
            self.clock,
        )

    def _argv(self, number: int, chain: Chain | None, asked: Preflighting) -> tuple[str, ...]:
        request = self.request
        report = self.run.attempt(number) / "preflight_report.json"
        words = [
            *self.program,
            "--json",
            f"--run-dir={self.run.path}",
            f"--output={report}",
            f"--time-limit={asked.time_limit_s:g}",
        ]
        if self.mode is Mode.LOCAL:
            words.append("--mode=local")
        if request.interface is not None:
            words.append(f"--interface={request.interface}")
        if request.command.python is not None:
            words.append(f"--python={request.command.python}")
        if isinstance(self.shape.nproc_per_node, int) and request.command.kind is CommandKind.TORCHRUN:
            words.append(f"--nproc-per-node={self.shape.nproc_per_node}")
        words += [f"--skip={name}" for name in asked.skip]
        if self._known_together(number, chain):
            words.append("--no-all-reduce")
        return tuple(words)

    def _known_together(self, number: int, chain: Chain | None) -> bool:
        """Whether these nodes have passed a preflight for the attempt before: the longest check is not done again."""
        before = chain.attempt(number - 1) if chain is not None else None
        if before is None or self.facts is None or before.started.nodes != self.facts.nodes:
            return False
        verdict = read_verdict(self.run, before.number)
        return verdict is not None and verdict.then is Then.GO_ON and bool(verdict.nodes) and not verdict.warnings

    def _obey(self, number: int, verdict: PreflightVerdict) -> Inspected:
        for warning in verdict.warnings:
            self.say(f"preflight warns: {warning}")
        self._write_down(number, verdict)
        remedy = f"; what helps: {verdict.remedy}" if verdict.remedy else ""
        match verdict.then:
            case Then.GO_ON:
                if not verdict.warnings:
                    self.say(f"preflight: {verdict.because}")
                return Cleared()
            case Then.GO_ON_WITHOUT:
                self.say(f"preflight: {verdict.because}{remedy}")
                return Cleared(tuple(each.node for each in verdict.unfit))
            case Then.LEAVE_OUT | Then.REFUSE | Then.STOPPED:
                self.say(f"preflight: {verdict.because}{remedy}")
                return StepEnd(None, (), None, in_grace=False, started=False, preflight=verdict)

    def _write_down(self, number: int, verdict: PreflightVerdict) -> None:
        try:
            write_verdict(self.run, number, verdict)
        except OSError as error:  # we know it ourselves
            self.say(f"what preflight came to can't be written down: {error}")

    def _interrupted(self, number: int, found: Interrupted, granted: Granted) -> StepEnd:
        """As in the training, where nothing is lost: there was no step yet."""
        by_hand = {signal.SIGINT, signal.SIGHUP}
        if self.mode in (Mode.LOCAL, Mode.LOGIN):
            by_hand.add(signal.SIGTERM)
        word = next((each.name for each in found.signals if each in by_hand), None)
        verdict = None
        if word is not None or not found.signals:
            who = "somebody asked the run to stop" if word is None else f"{word} to srun-resilient"
            verdict = PreflightVerdict(Then.STOPPED, f"{who} while preflight ran")
            self._write_down(number, verdict)
        self.say("preflight was interrupted: the training is not started")
        must_leave_s = None
        if signal.SIGTERM in found.signals and signal.SIGTERM not in by_hand:
            must_leave_s = found.heard_s + granted.times.kill_wait_s
        names = tuple(each.name for each in found.signals)
        return StepEnd(None, names, must_leave_s, in_grace=False, started=False, preflight=verdict)


def _is_so(preempting: Callable[[], bool]) -> bool:
    try:
        return preempting()
    except SlurmError:
        return False  # the end of the attempt asks again, and for longer
