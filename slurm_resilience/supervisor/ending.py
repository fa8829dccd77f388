"""The end of an attempt: evidence, diagnosis, decision, journal, and only then the deed.

Called by the supervisor when its step is over, by the deputy when the supervisor died, by `slurm-resilience resume`,
by a successor for the attempt that it follows, and at the next start for an attempt that nobody concluded. Whoever
comes first writes the end; the others find it and do what it says. A requeue done twice is refused by Slurm and
harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ManifestError, ManifestUnsupported, SlurmError
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.preflight_verdict import Then
from slurm_resilience.manifest.records import AttemptEnded, Cause, DecisionCarriedOut, Record, RunFinished
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.decision import (
    GOES_ON,
    WITHDRAWN,
    AlreadyQueued,
    Decision,
    Finish,
    Hold,
    Requeue,
    Restart,
    Stop,
    Successor,
    Way,
    word_for,
)
from slurm_resilience.requeue.judgement import Judgement, judge
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.slurm.client import JobRef, JobState, SlurmClient
from slurm_resilience.supervisor.asking import Asking
from slurm_resilience.supervisor.deed import Deeds, Done, NotDone, Outcome
from slurm_resilience.supervisor.evidence import Seen, gather
from slurm_resilience.supervisor.slurms_word import SlurmsWord, ask_for_it
from slurm_resilience.supervisor.succession import Succession
from slurm_resilience.triage.diagnosis import Diagnosis, Evidence, diagnose

__all__ = ["Conclusion", "Done", "Ending", "NotDone", "Outcome", "Seen"]


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
    succession: Succession | None = None
    """Of a run that goes on by successors."""

    def conclude(self, number: int, seen: Seen) -> Conclusion:
        """Write the end of attempt `number`, unless it is written, and carry the decision out, unless it has been."""
        with self.journal.remembering():  # seconds are all there may be until Slurm's kill
            return self._conclude(number, seen)

    def _conclude(self, number: int, seen: Seen) -> Conclusion:
        attempt = self._ended(number, seen)
        assert attempt.ended is not None
        newer = self._newer_than(number)
        if newer is not None:  # whatever was decided, somebody has gone on with it: a ghost moves nothing any more
            because = f"attempt {newer} of the run has begun"
            return Conclusion(Stop(because), Cause.FENCED, because, Done("nothing to do"))
        decision = _decision_of(attempt.ended)
        if attempt.carried_out is not None:
            done = _as_it_was_done(attempt.carried_out.how)
        else:
            by_its_job = not seen.supervisor_died
            deeds = Deeds(self.run.path, self.slurm, self.succession, self._asking, self.say, by_its_job)
            done = deeds.carry_out(attempt, decision)
            self._write_down(attempt, done)
        return Conclusion(decision, attempt.ended.cause, attempt.ended.because, done)

    def tell_finish(self) -> None:
        """Tell the end of an attempt whose training came to its own end, and whose supervisor could not say so."""
        newest = Chain.of(self.journal.read()).newest_attempt
        if newest is not None and newest.ended is None:
            self.conclude(newest.number, Seen(None, (), True, 0, None))

    def tell_predecessor(self, number: int, seen: Seen, successor: JobRef) -> Conclusion:
        """As `conclude`, by the job that was queued to follow attempt `number` and has started: it is the deed."""
        attempt = self._ended(number, seen)
        assert attempt.ended is not None
        decision = _decision_of(attempt.ended)
        done = Done(f"job {successor} has started")
        if isinstance(decision, Successor) and attempt.carried_out is None:
            self._write_down(attempt, done)
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
            self._tell_one(chain, attempt, anew, f"attempt {successor} goes on with it")

    def tell_former_life(self, number: int) -> None:
        """Tell the end of attempt `number`, whose job Slurm has started anew before anybody could."""
        chain = Chain.of(self.journal.read())
        attempt = chain.attempt(number)
        if attempt is not None and attempt.ended is None:
            self._tell_one(chain, attempt, True, f"Slurm has started job {attempt.started.job} again")

    def _tell_one(self, chain: Chain, attempt: Attempt, restarted: bool, reason: str) -> None:
        seen = Seen(None, (), True, 0, None, restarted_by_slurm=restarted)  # 0: not known any more
        evidence = self._evidence(chain, attempt, seen, SlurmsWord())
        diagnosis = diagnose(replace(evidence, fenced=False))
        self.journal.append(
            _end_record(attempt, evidence, diagnosis, "leave", reason), DecisionCarriedOut(attempt.number, reason)
        )

    def _newer_than(self, number: int) -> int | None:
        chain = self._read()
        newest = chain.newest_attempt
        return newest.number if newest is not None and newest.number > number and not chain.finished else None

    def _ended(self, number: int, seen: Seen) -> Attempt:
        """The attempt with its end, which is written now where it is not yet."""
        chain = self._read()
        attempt = chain.attempt(number)
        if attempt is None:
            raise ValueError(f"attempt {number} of {self.run.path} never started")
        return attempt if attempt.ended is not None else self._write_end(chain, attempt, seen)

    def _read(self) -> Chain:
        """A file system's bad moment must cost neither the decision nor the deed."""
        return self._asking.until_answered(lambda: Chain.of(self.journal.read()), "reading the run's journal")

    def _write_end(self, chain: Chain, attempt: Attempt, seen: Seen) -> Attempt:
        job = attempt.started.job
        word = ask_for_it(self.slurm, job, self._asking, self.say, afterwards=seen.supervisor_died)
        record = word.record
        evidence = self._evidence(chain, attempt, seen, word)
        diagnosis = diagnose(evidence)
        restarts = attempt.started.restart_count or 0
        queued = record is not None and record.restarts > restarts and record.state is not JobState.CANCELLED
        judgement = judge(
            chain,
            attempt.number,
            diagnosis,
            signature=diagnosis.signature,
            last_step=_last_step(attempt, evidence),
            way=self.way(diagnosis.cause),
            limits=self.limits,
            queued_by_slurm=queued,
        )
        decision = judgement.decision
        if isinstance(decision, Successor):
            decision = self._unless_cancelled(attempt, decision)
        avoid = _to_avoid(judgement, evidence) if isinstance(decision, GOES_ON) else ()
        end = _end_record(attempt, evidence, diagnosis, word_for(decision), decision.reason)
        records: list[Record] = [replace(end, exclude=avoid)]
        if judgement.quarantined is not None:
            records.insert(0, judgement.quarantined)  # a crash keeps a first part: not an end without it
        if isinstance(decision, Finish):
            records.append(RunFinished(attempt.number))
        return self._asking.until_answered(
            lambda: self._append_end(attempt, records), "writing down the end of the attempt"
        )

    def _unless_cancelled(self, attempt: Attempt, decision: Successor) -> Successor | Stop:
        """Whoever cancels the waiting successor while the attempt runs wants the run to end with it."""
        succession = self.succession
        if succession is None:
            return decision
        try:
            word = self._asking.until_answered(
                lambda: succession.cancelled_by_person(attempt.number), "asking Slurm about the successor"
            )
        except SlurmError:
            return decision  # the deed asks again, and respects it, too
        return decision if word is None else Stop(f"{decision.reason}; {word}")

    def _append_end(self, attempt: Attempt, records: Sequence[Record]) -> Attempt:
        with self.journal.writing() as writer:
            found = Chain.of(writer.lines()).attempt(attempt.number)
            if found is not None and found.ended is not None:
                return found  # somebody was faster: one end, one decision
            writer.append(*records)
            written = Chain.of(writer.lines()).attempt(attempt.number)
        assert written is not None
        return written

    def _evidence(self, chain: Chain, attempt: Attempt, seen: Seen, word: SlurmsWord) -> Evidence:
        return gather(self.run, chain, attempt, seen, word, now_s=self.clock.now_s(), say=self.say)

    @property
    def _asking(self) -> Asking:
        return Asking(self.clock, self.say, self.give_up_s)

    def _write_down(self, attempt: Attempt, outcome: Outcome) -> None:
        how = outcome.how if isinstance(outcome, Done) else f"{WITHDRAWN}{outcome}" if outcome.overtaken else None
        if how is not None:
            try:
                with self.journal.writing() as writer:
                    told = Chain.of(writer.lines()).attempt(attempt.number)
                    if told is None or told.carried_out is None:  # somebody else may have done it beside us
                        writer.append(DecisionCarriedOut(attempt.number, how))
            except ManifestError as error:  # done is done; whoever does it again is refused
                self.say(f"it is done, but that could not be written down: {error}")


def _end_record(attempt: Attempt, evidence: Evidence, diagnosis: Diagnosis, decision: str, reason: str) -> AttemptEnded:
    return AttemptEnded(
        attempt=attempt.number,
        cause=diagnosis.cause,
        because=diagnosis.because,
        evidence=diagnosis.evidence,
        decision=decision,
        decision_reason=reason,
        command_code=evidence.command_code,
        step=_last_step(attempt, evidence),
        outranked=diagnosis.outranked,
        signature=diagnosis.signature,
    )


def _to_avoid(judgement: Judgement, evidence: Evidence) -> tuple[str, ...]:
    """With the nodes that the step has done without: it had others to choose from, and the next one may not."""
    verdict = evidence.preflight
    spared = verdict.unfit if verdict is not None and verdict.then is Then.GO_ON_WITHOUT else ()
    return tuple(dict.fromkeys([*judgement.avoid, *(each.node for each in spared)]))


def _last_step(attempt: Attempt, evidence: Evidence) -> int | None:
    steps = [rank.step for agent in evidence.agents for rank in agent.ranks if rank.step >= 0]
    return attempt.finished_step if attempt.finished_step is not None else (max(steps) if steps else None)


def _as_it_was_done(how: str) -> Outcome:
    """As it stands in the journal."""
    if not how.startswith(WITHDRAWN):
        return Done(how)
    return NotDone(how.removeprefix(WITHDRAWN), final=True, overtaken=True)


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
        case "hold":
            return Hold(ended.decision_reason)
        case "stop":
            return Stop(ended.decision_reason)
        case word:
            raise ManifestUnsupported(f"the journal holds a decision {word!r} that this version doesn't know")
