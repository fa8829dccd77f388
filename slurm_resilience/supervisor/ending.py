"""The end of an attempt: evidence, diagnosis, decision, journal, and only then the deed.

Called by the supervisor when its step is over, by the deputy when the supervisor died, by `slurm-resilience resume`,
and at the next start for an attempt that nobody concluded. Whoever comes first writes the end; the others find it and
do what it says. A requeue done twice is refused by Slurm and harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, Union

from slurm_resilience.clock import Clock
from slurm_resilience.errors import (
    ManifestError,
    ManifestUnavailable,
    ManifestUnsupported,
    SlurmError,
    SlurmRejected,
    SlurmUnavailable,
)
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptEnded, Cause, DecisionCarriedOut, RunFinished
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.decision import (
    AlreadyQueued,
    Decision,
    Finish,
    Requeue,
    Restart,
    Stop,
    Successor,
    Way,
    decide,
    word_for,
)
from slurm_resilience.requeue.history import history_with
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState, SlurmClient
from slurm_resilience.supervisor.witnesses import agent_records, rank_errors, unheard
from slurm_resilience.triage.diagnosis import Diagnosis, Evidence, diagnose

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the caller itself has seen of the end."""

    command_code: int | None
    supervisor_signals: tuple[str, ...]
    supervisor_died: bool
    agents_expected: int
    end_s: float | None
    in_grace: bool = False
    """Slurm's record showed a preemption while the attempt ran."""
    restarted_by_slurm: bool = False
    """Slurm has started the same job anew, by itself."""


@dataclass(frozen=True, slots=True)
class Done:
    """The decision is carried out."""

    how: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """The decision stands in the journal, and nobody has carried it out."""

    why: str
    final: bool
    """Slurm has said no; otherwise it did not answer in time, and somebody else may do it."""


Outcome = Union[Done, NotDone]


@dataclass(frozen=True, slots=True)
class Conclusion:
    decision: Decision
    cause: Cause
    because: str
    outcome: Outcome

    @property
    def carried_out(self) -> bool:
        return isinstance(self.outcome, Done)


@dataclass(frozen=True, slots=True)
class Ending:
    """What is needed to conclude an attempt. `slurm` None: this attempt doesn't run under Slurm."""

    run: RunDirectory
    journal: Journal
    slurm: SlurmClient | None
    clock: Clock
    limits: Limits
    way: Callable[[Cause], Way]
    say: Callable[[str], None]
    give_up_s: float
    """When to stop asking Slurm, on the monotonic clock."""

    def conclude(self, number: int, seen: Seen) -> Conclusion:
        """Write the end of attempt `number`, unless it is written, and carry the decision out, unless it has been."""
        chain = Chain.of(self.journal.read())
        attempt = chain.attempt(number)
        if attempt is None:
            raise ValueError(f"attempt {number} of {self.run.path} never started")
        if attempt.ended is None:
            attempt = self._write_end(chain, attempt, seen)
        assert attempt.ended is not None
        decision = _decision_of(attempt.ended)
        if attempt.carried_out is not None:
            done: Outcome = Done(attempt.carried_out.how)
        else:
            done = self._carry_out(attempt, decision)
        return Conclusion(decision, attempt.ended.cause, attempt.ended.because, done)

    def tell_past(self, successor: int) -> None:
        """Tell the ends of the attempts before `successor` that died without a word; it owns the run now."""
        chain = Chain.of(self.journal.read())
        newer = chain.attempt(successor)
        for attempt in chain.attempts:
            if attempt.number >= successor or attempt.ended is not None or newer is None:
                continue
            past, now = attempt.started, newer.started
            anew = past.job is not None and past.job == now.job and (now.restart_count or 0) > (past.restart_count or 0)
            seen = Seen(None, (), True, 0, None, restarted_by_slurm=anew)  # 0: not known any more
            evidence = self._evidence(chain, attempt, seen, None)
            diagnosis = diagnose(replace(evidence, fenced=False))
            reason = f"attempt {successor} goes on with it"
            self.journal.append(
                _end_record(attempt, evidence, diagnosis, "leave", reason), DecisionCarriedOut(attempt.number, reason)
            )

    def _write_end(self, chain: Chain, attempt: Attempt, seen: Seen) -> Attempt:
        record = self._ask_slurm(attempt)
        evidence = self._evidence(chain, attempt, seen, record)
        diagnosis = diagnose(evidence)
        restarts = attempt.started.restart_count or 0
        queued = record is not None and record.restarts > restarts and record.state is not JobState.CANCELLED
        decision = decide(
            diagnosis,
            history_with(chain, attempt.number, diagnosis.cause),
            way=self.way(diagnosis.cause),
            limits=self.limits,
            queued_by_slurm=queued,
        )
        ended = _end_record(attempt, evidence, diagnosis, word_for(decision), decision.reason)
        finished = isinstance(decision, Finish)
        return self._until_answered(
            lambda: self._append_end(attempt, ended, finished), "writing down the end of the attempt"
        )

    def _append_end(self, attempt: Attempt, ended: AttemptEnded, finished: bool) -> Attempt:
        with self.journal.writing() as writer:
            found = Chain.of(writer.lines()).attempt(attempt.number)
            if found is not None and found.ended is not None:
                return found  # somebody was faster: one end, one decision
            writer.append(ended, *([RunFinished(attempt.number)] if finished else []))
            written = Chain.of(writer.lines()).attempt(attempt.number)
        assert written is not None
        return written

    def _evidence(self, chain: Chain, attempt: Attempt, seen: Seen, record: JobRecord | None) -> Evidence:
        newest = chain.newest_attempt
        agents = agent_records(self.run, attempt.number, self.say)
        return Evidence(
            training_finished=chain.finished,
            agents=tuple(agents),
            agents_expected=seen.agents_expected,
            unheard=unheard(attempt, agents, seen.agents_expected),
            command_code=seen.command_code,
            supervisor_signals=seen.supervisor_signals,
            supervisor_died=seen.supervisor_died,
            restarted_by_slurm=seen.restarted_by_slurm,
            record=record,
            in_grace=seen.in_grace,
            slurm=attempt.started.job is not None,
            restarts_at_start=attempt.started.restart_count or 0,
            end_s=seen.end_s,
            now_s=self.clock.now_s(),
            rank_errors=rank_errors(self.run, attempt.number),
            fenced=newest is not None and newest.number > attempt.number,
        )

    def _ask_slurm(self, attempt: Attempt) -> JobRecord | None:
        """One answer is worth a wait: it decides between requeue and leaving alone. None: there was none in time."""
        if self.slurm is None or attempt.started.job is None:
            return None
        slurm, job = self.slurm, JobRef(attempt.started.job)

        def ask() -> JobRecord | None:
            return slurm.job(job)

        try:
            return self._until_answered(ask, "asking Slurm what became of the job")
        except SlurmError as error:
            self.say(f"Slurm's record of job {job} is not to be had: {error}")
            return None

    def _until_answered(self, ask: Callable[[], _T], what: str) -> _T:
        """Ask until there is an answer or `give_up_s` has come; then the last ...Unavailable is raised."""
        pause_s, told = FIRST_PAUSE_S, False
        while True:
            try:
                return ask()
            except (SlurmUnavailable, ManifestUnavailable) as error:
                if self.clock.monotonic_s() + pause_s >= self.give_up_s:
                    raise
                if not told:
                    self.say(f"{what}, again until it answers: {error}")
                    told = True
            self.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _carry_out(self, attempt: Attempt, decision: Decision) -> Outcome:
        outcome = self._requeue(attempt) if isinstance(decision, Requeue) else _without_a_deed(decision)
        if isinstance(outcome, Done):
            try:
                self.journal.append(DecisionCarriedOut(attempt.number, outcome.how))
            except ManifestError as error:  # done is done; whoever does it again is refused
                self.say(f"it is done, but that could not be written down: {error}")
        return outcome

    def _requeue(self, attempt: Attempt) -> Outcome:
        slurm, job = self.slurm, attempt.started.job
        if slurm is None or job is None:
            return NotDone("there is no Slurm here to carry it out", final=False)
        try:
            self._until_answered(lambda: slurm.requeue(JobRef(job)), f"asking Slurm to requeue job {job}")
        except SlurmRejected as refusal:
            return self._after_refusal(slurm, attempt, JobRef(job), refusal)
        except SlurmError as error:
            return NotDone(f"{error}; `slurm-resilience resume {self.run.path}` does it", final=False)
        return Done(f"scontrol requeue {job}")

    def _after_refusal(self, slurm: SlurmClient, attempt: Attempt, job: JobRef, refusal: SlurmRejected) -> Outcome:
        """A refusal is harmless where the job is queued already, and Slurm's word where it isn't."""
        try:
            record = slurm.job(job)
        except SlurmError:
            record = None
        if record is not None and record.restarts > (attempt.started.restart_count or 0):
            return Done("somebody had queued the job again before us")
        return NotDone(f"{refusal}; to go on, submit the job again", final=True)


def _end_record(attempt: Attempt, evidence: Evidence, diagnosis: Diagnosis, decision: str, reason: str) -> AttemptEnded:
    steps = [rank.step for agent in evidence.agents for rank in agent.ranks if rank.step >= 0]
    return AttemptEnded(
        attempt=attempt.number,
        cause=diagnosis.cause,
        because=diagnosis.because,
        evidence=diagnosis.evidence,
        decision=decision,
        decision_reason=reason,
        command_code=evidence.command_code,
        step=attempt.finished_step if attempt.finished_step is not None else (max(steps) if steps else None),
    )


def _without_a_deed(decision: Finish | Successor | Restart | AlreadyQueued | Stop) -> Done:
    match decision:
        case Successor():
            return Done("the successor's job is queued")
        case AlreadyQueued():
            return Done("Slurm had queued the job again by itself")
        case Restart():
            return Done("the supervisor starts the next attempt itself")
        case Finish() | Stop():
            return Done("nothing to do")


def _decision_of(ended: AttemptEnded) -> Decision:
    """The decision as it stands in the journal."""
    match ended.decision:
        case "finish":
            return Finish(ended.decision_reason)
        case "requeue":
            return Requeue(ended.decision_reason)
        case "successor":
            return Successor(ended.decision_reason)
        case "restart":
            return Restart(ended.decision_reason)
        case "leave":
            return AlreadyQueued(ended.decision_reason)
        case "stop":
            return Stop(ended.decision_reason)
        case word:
            raise ManifestUnsupported(f"the journal holds a decision {word!r} that this version doesn't know")
