"""The supervisor: owns the attempt from its first line in the journal to the decision about the next one."""

from __future__ import annotations

import errno
import shlex
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from slurm_resilience.clock import Clock
from slurm_resilience.errors import EXIT_FINISHED, ConfigurationError, ManifestUnavailable
from slurm_resilience.manifest.attempt import begin_attempt, release
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import RunId
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.decision import Finish, Restart
from slurm_resilience.signals.ladder import LAST_WORDS_S
from slurm_resilience.slurm.client import SlurmClient
from slurm_resilience.slurm.facts import JobFacts
from slurm_resilience.supervisor.asking import Asking
from slurm_resilience.supervisor.beside import Beside
from slurm_resilience.supervisor.continuity import Continuity
from slurm_resilience.supervisor.ending import Seen
from slurm_resilience.supervisor.inspection import Cleared, Inspection
from slurm_resilience.supervisor.job_output import remember_output
from slurm_resilience.supervisor.notices import Notices
from slurm_resilience.supervisor.output import Output
from slurm_resilience.supervisor.past import Past, kept_from_slurm, leave
from slurm_resilience.supervisor.preparation import (
    Granted,
    Prepared,
    ask_what_is_granted,
    keep_plan,
    make_ladder,
    prepare,
    to_avoid,
)
from slurm_resilience.supervisor.request import Request
from slurm_resilience.supervisor.spank_plugin import has_plugin
from slurm_resilience.supervisor.step import StepEnd, StepWatch
from slurm_resilience.supervisor.surroundings import Mode, Shape
from slurm_resilience.supervisor.voice import say
from slurm_resilience.supervisor.witnesses import refusal, telling_lines

if TYPE_CHECKING:  # loaded where it is asked for
    from slurm_resilience.supervisor.publisher import Publisher

ASK_SLURM_S = 1800.0
"""How long the end of an attempt waits for a controller that doesn't answer, where nobody is about to kill us."""
STORAGE_S = 300.0
"""How long the start of an attempt waits for a storage that says no, where nobody else would start the job again."""
PAUSE_BEFORE_RESTART_S = 1.0
_FOR_GOOD = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Supervisor:
    request: Request
    mode: Mode
    shape: Shape
    facts: JobFacts | None
    slurm: SlurmClient | None
    """None in local mode."""
    clock: Clock
    environment: Mapping[str, str]
    run: RunDirectory
    say: Callable[[str], None] = say

    def supervise(self) -> int:
        """The exit code of srun-resilient: see errors.py."""
        journal = Journal(self.run, clock=self.clock)
        chain = self._patiently(lambda: Chain.of(journal.read()) if journal.exists() else None)
        if chain is not None:
            self._refuse_another_training(chain)
            if chain.finished:
                self._continuity(journal).tell_finish(chain)
                self.say(f"run {self.run.path} is finished: nothing to do")
                self._publish_what_is_left(chain)
                return EXIT_FINISHED
        run_id = self._patiently(lambda: journal.create(self.run.path.name))
        publisher, continuity = self._publisher(), self._continuity(journal)
        with Notices() as notices:
            heard: list[signal.Signals] | None = None
            while True:
                granted = self._ask()
                if heard is None:
                    code = self._patiently(partial(continuity.turned_away, granted))
                    if code is not None:
                        return kept_from_slurm(code, granted.requeue_exit)
                past = self._attempt(continuity, run_id, granted, notices, heard, publisher)
                decision = past.conclusion.decision
                if not isinstance(decision, Restart):
                    code = leave(past, granted.requeue_exit, self.say)
                    if publisher is not None:
                        must_leave_s, ends_s = past.must_leave_s, past.job_ends_s
                        publisher.end(past.number, decision, notices, job_ends_s=ends_s, must_leave_s=must_leave_s)
                    return code
                self.say(f"attempt {past.number} ended: {past.conclusion.because}; starting again in place")
                # Who interrupts us between two attempts means the run: the next one is told.
                heard = notices.pause(PAUSE_BEFORE_RESTART_S, self.clock)

    def describe(self) -> list[str]:
        """What would be done, line by line; nothing is written or started."""
        journal = Journal(self.run, clock=self.clock)
        chain = Chain.of(journal.read()) if journal.exists() else None
        granted = self._ask()
        ladder = make_ladder(granted, chain, self.request)
        number = chain.newest_attempt.number + 1 if chain is not None and chain.newest_attempt is not None else 1
        prepared = self._prepare(number, RunId("dry-run"), granted, chain, self.environment)
        publisher = self._publisher()
        return [
            shlex.join(prepared.argv),
            f"run directory: {self.run.path}, attempt {number}, mode {self.mode.value}",
            f"each node agent runs: {prepared.plan.kind.value} {shlex.join(prepared.plan.argv)}",
            *([] if publisher is None else [f"checkpoints are published by: {publisher}"]),
            *self._continuity(journal).description(),
            *self._inspection().description(number, chain),
            *(f"{rung.name:>28}  {rung.seconds:8.1f} s  {rung.source}" for rung in ladder.rungs),
            *(f"warning: {sentence}" for sentence in ladder.inversions),
        ]

    def _patiently(self, do: Callable[[], _T]) -> _T:
        """Of a start: a storage's bad moment must not end a batch job, which nobody would start again."""
        if self.mode is not Mode.BATCH:
            return do()  # a person waits
        asking = Asking(self.clock, self.say, self.clock.monotonic_s() + STORAGE_S)
        return asking.until_answered(partial(_unless_for_good, do), "the run's directory is asked")

    def _ask(self) -> Granted:
        return ask_what_is_granted(self.slurm, self.facts, self.request, self.clock.now_s(), self.say, self.environment)

    def _publisher(self) -> Publisher | None:
        if self.request.publish is None:
            return None
        from slurm_resilience.supervisor.publisher import Publisher

        return Publisher(self.run, self.request.publish, self.clock, self.environment, self.say)

    def _publish_what_is_left(self, chain: Chain) -> None:
        """Of a finished run whose last attempt had no time for it."""
        publisher = self._publisher()
        if publisher is None or chain.newest_attempt is None:
            return
        ends_s, number = self._ask().times.end_s, chain.newest_attempt.number
        with Notices() as notices:
            publisher.end(number, Finish("finished before"), notices, job_ends_s=ends_s, must_leave_s=None)

    def _attempt(
        self,
        continuity: Continuity,
        run_id: RunId,
        granted: Granted,
        notices: Notices,
        heard: list[signal.Signals] | None,
        publisher: Publisher | None,
    ) -> Past:
        """`heard`: what came since the attempt before; None where this is our first."""
        journal, output = continuity.journal, Output.of_this_process()
        begin = partial(
            begin_attempt,
            self.run,
            mode=self.mode.value,
            command=self.request.words,
            job=self.facts.job if self.facts is not None else None,
            restart_count=self.facts.restart_count if self.facts is not None else None,
            cluster=granted.cluster,
            nodes=self.facts.nodes if self.facts is not None else None,
            liveness_by_slurm=continuity.liveness(granted.cluster),
            clock=self.clock,
            journal=journal,
        )
        number = self._patiently(begin)
        may_requeue = continuity.may_requeue(granted)
        continuity.warn(granted)
        self._patiently(lambda: continuity.ending(may_requeue, 0.0).tell_past(number))
        chain = self._patiently(lambda: Chain.of(journal.read()))
        for sentence in make_ladder(granted, chain, self.request).inversions:
            self.say(f"warning: {sentence}")
        environment = continuity.environment_of_training(chain, granted)
        prepared = self._prepare(number, run_id, granted, chain, environment)
        self._patiently(lambda: keep_plan(self.run, number, prepared.plan, forget_stop=heard is None))
        remember_output(self.run, number, output)
        since = f"step {chain.next_step}" if chain.ever_had_checkpoint else "the beginning"
        self.say(f"attempt {number} of run {self.run.path} ({self.mode.value}), from {since}")
        beside = Beside(
            number, publisher, continuity.watch(), continuity.time_watch(number, chain, granted), self.clock
        )
        beside.begin()
        if granted.record is not None and granted.record.preempted_s is not None:
            end = StepEnd(None, (), None, in_grace=True)  # a step that starts in the grace is never told of it
        else:
            way_on = partial(continuity.way, may_requeue=may_requeue)
            end_s, signals, ask = prepared.plan.stop_before_end_s, heard or (), continuity.preempting
            cleared = self._inspection().inspect(number, chain, granted, end_s, way_on, ask, notices, signals)
            if isinstance(cleared, Cleared) and cleared.without:
                prepared = self._prepare(number, run_id, granted, chain, environment, cleared.without)
            if isinstance(cleared, Cleared):
                step = self._watch(number, prepared, granted, beside.tend, continuity.preempting)
                end = step.watch(notices, signals)
            else:
                end = cleared
        beside.settle(self._give_up_s(end))
        ends_s = beside.job_ends_s(granted.times.end_s)
        lines = telling_lines(output.path, output.since_byte, self.say) if output is not None else ()
        tasks = prepared.plan.tasks if end.started else 0
        seen = Seen(end.code, end.signals, False, tasks, ends_s, end.in_grace, log_lines=lines, preflight=end.preflight)
        conclusion = continuity.ending(may_requeue, self._give_up_s(end)).conclude(number, seen)
        release(self.run, number, journal=journal)
        way = continuity.way(conclusion.cause, may_requeue=may_requeue)
        return Past(number, conclusion, end.code, way, end.must_leave_s, ends_s)

    def _inspection(self) -> Inspection:
        request, mode, shape, facts = self.request, self.mode, self.shape, self.facts
        return Inspection(request, mode, shape, facts, self.clock, self.environment, self.run, self.say)

    def _watch(
        self,
        number: int,
        prepared: Prepared,
        granted: Granted,
        beside: Callable[[], None],
        preempting: Callable[[], bool],
    ) -> StepWatch:
        facts = self.facts
        return StepWatch(
            self.run,
            number,
            prepared.argv,
            prepared.environment,
            self.clock,
            granted.times.kill_wait_s,
            self.mode in (Mode.LOCAL, Mode.LOGIN),
            signal.SIGKILL if self.mode is Mode.LOCAL else signal.SIGTERM,
            self.say,
            preempting,
            beside,
            prepared.plan.times.after_termination_s,
            lambda: None if facts is None else refusal(self.run, facts.job, facts.restart_count),
        )

    def _give_up_s(self, end: StepEnd) -> float:
        if end.must_leave_s is not None:
            return end.must_leave_s - LAST_WORDS_S / 3
        return self.clock.monotonic_s() + ASK_SLURM_S

    def _continuity(self, journal: Journal) -> Continuity:
        request, facts, slurm = self.request, self.facts, self.slurm
        return Continuity(self.run, journal, request, self.mode, facts, slurm, self.clock, self.environment, self.say)

    def _prepare(
        self,
        number: int,
        run_id: RunId,
        granted: Granted,
        chain: Chain | None,
        environment: Mapping[str, str],
        without: tuple[str, ...] = (),
    ) -> Prepared:
        return prepare(
            self.request,
            self.mode,
            self.shape,
            make_ladder(granted, chain, self.request),
            granted,
            run=self.run.path,
            run_id=run_id,
            attempt=number,
            plan_path=self.run.plan(number),
            environment=environment,
            can_requeue=self.mode is Mode.BATCH and self.request.requeue,
            plugin=self.mode is not Mode.LOCAL and has_plugin(self.request.srun, self.environment),
            avoid=to_avoid(chain) if self.mode is Mode.LOGIN else without,  # of a job of ours, Slurm has been told
        )

    def _refuse_another_training(self, chain: Chain) -> None:
        """A run directory that nobody named belongs to the training that began it."""
        newest = chain.newest_attempt
        if self.request.run_dir is not None or newest is None or newest.started.command == self.request.words:
            return
        raise ConfigurationError(
            f"run {self.run.path} was begun by another command ({shlex.join(newest.started.command)}): "
            "name this one's directory with --run-dir, or give that one to go on with it"
        )


def _unless_for_good(do: Callable[[], _T]) -> _T:
    """What a person has to change, such as a folder's permissions, is told at once. Raises ConfigurationError."""
    try:
        return do()
    except ManifestUnavailable as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _FOR_GOOD:
            raise ConfigurationError(str(error)) from error
        raise
