"""One attempt's job step, watched to its end: srun (or, without Slurm, the node agent itself) as our child."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_resilience.clock import Clock
from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import EXIT_OWNED, CommandMissing, SlurmError
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome
from slurm_resilience.manifest.attempt import newer_plan
from slurm_resilience.manifest.preflight_verdict import PreflightVerdict
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.ladder import LAST_WORDS_S
from slurm_resilience.signals.stop_request import StopReason
from slurm_resilience.supervisor.notices import Notices, default_signals_in_child
from slurm_resilience.supervisor.pulse import Beat, Pulse, silent_after_s
from slurm_resilience.supervisor.question import Question
from slurm_resilience.supervisor.witnesses import agent_records, agents_and_beats

TICK_S = 0.25
LOOK_AT_RECORDS_S = 1.0
AGENTS_AFTER_SRUN_S = 15.0
"""How long agents may outlive an srun that was killed from under them before we look no further."""
WHY_S = 30.0
"""How long the end of a step waits for Slurm's word on why it ended, where nobody is about to kill us."""
LOOK_FOR_NEWER_S = 5.0
GHOST_STAYS_S = 30.0
"""How long srun may stay once the run has gone on elsewhere. The agents end within 15 s, but on a node that is cut off
nobody can tell srun that its tasks have ended."""
NOT_STARTED = 126
"""What a shell leaves with that can't run what it found."""
_BAD = (Outcome.FAILED, Outcome.NOT_STARTED)


@dataclass(frozen=True, slots=True)
class StepEnd:
    code: int | None
    """As the shell would say it; None: we left before it did, because our own time was up."""
    signals: tuple[str, ...]
    must_leave_s: float | None
    """When Slurm will kill us, on the monotonic clock; None: nobody has said so."""
    in_grace: bool
    """Whether Slurm said, when the ranks were asked to stop, that it is preempting the job."""
    started: bool = True
    """False: the attempt was over before its step."""
    preflight: PreflightVerdict | None = None
    """Why there was none, where preflight had the last word."""


@dataclass
class StepWatch:
    """Starts the step and turns what happens to us into stop orders for its node agents."""

    run: RunDirectory
    attempt: int
    argv: Sequence[str]
    environment: Mapping[str, str]
    clock: Clock
    kill_wait_s: float
    owner_by_person: bool
    """Whether a SIGTERM to us is a person's word (a login node, local mode) and not Slurm's."""
    second_interrupt: signal.Signals
    """What ends the child at once: srun makes SIGKILL for its tasks of a SIGTERM, a node agent would only ask."""
    say: Callable[[str], None]
    preempting: Callable[[], bool]
    """Asks Slurm whether the job is being preempted. Raises SlurmError where it doesn't answer."""
    beside: Callable[[], None] = lambda: None
    """What else is to be looked after while nobody has asked the ranks to stop. Must not raise, nor wait."""
    after_preemption_s: float | None = None
    """From the beginning of a preemption to the end of all time for the ranks. Where it is given, a warning that turns
    out to be a preemption (send_user_signal) gets this deadline."""
    refused: Callable[[], str | None] = lambda: None
    """Whether a node lets no task of ours start, and why: the others would wait for it. Must not raise."""
    ghost_stays_s: float = GHOST_STAYS_S
    _in_grace: bool | None = None
    _asked_why: set[str] = field(default_factory=set)
    _asked_why_s: float = 0.0
    _why: Question[bool] = field(default_factory=lambda: Question("why"))
    _ordered: dict[str, float] = field(default_factory=dict)
    _order_due: bytes | None = None
    """An order that the file system has refused so far."""
    _said: set[str] = field(default_factory=set)
    _signals: list[str] = field(default_factory=list)
    _must_leave_s: float | None = None
    _interrupts: int = 0
    _look_for_newer_s: float = 0.0
    _ghost_since_s: float | None = None
    _pulse: Pulse = field(init=False)

    def __post_init__(self) -> None:
        self._pulse = Pulse(silent_after_s(self.environment))

    def watch(self, notices: Notices, heard: Sequence[signal.Signals] = ()) -> StepEnd:
        """`heard`: signals that came before and are meant for this step too. Raises CommandMissing."""
        try:
            child = subprocess.Popen(
                list(self.argv),
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                preexec_fn=default_signals_in_child,  # noqa: PLW1509  # the supervisor is single-threaded
            )
        except FileNotFoundError as error:
            raise CommandMissing(f"there is no program {self.argv[0]!r} here") from error
        except (OSError, subprocess.SubprocessError) as error:  # no process to be had at this moment, say
            self.say(f"{self.argv[0]} can't be started: {getattr(error, 'strerror', error)}")
            return StepEnd(NOT_STARTED, tuple(number.name for number in heard), None, in_grace=False, started=False)
        for number in heard:
            self._hear(number, child)
        look_s = self.clock.monotonic_s()
        while True:
            for number in notices.wait(TICK_S):
                self._hear(number, child)
            code = child.poll()
            if code is not None:
                self._wait_for_agents(notices, child)
                return self._end(code if code >= 0 else 128 - code)
            now_s = self.clock.monotonic_s()
            if self._must_leave_s is not None and now_s >= self._must_leave_s - LAST_WORDS_S:
                self.say("Slurm kills this job in a moment: the requeue can't wait for the ranks any longer")
                return self._end(None)
            if now_s >= look_s:
                look_s = now_s + LOOK_AT_RECORDS_S
                self._look_at_records()
                if self._is_a_ghost_too_long(now_s):
                    child.kill()
                    child.wait()
                    return self._end(EXIT_OWNED)
            if not self._ordered:
                self.beside()

    def _is_a_ghost_too_long(self, now_s: float) -> bool:
        if self._ghost_since_s is None and now_s >= self._look_for_newer_s:
            self._look_for_newer_s = now_s + LOOK_FOR_NEWER_S
            with contextlib.suppress(OSError):  # what can't be seen ends nobody
                newer = newer_plan(self.run, self.attempt)
                if newer is not None:
                    self._ghost_since_s = now_s
                    self.say(f"attempt {newer} of the run has begun: this one is a ghost, and ends")
        return self._ghost_since_s is not None and now_s - self._ghost_since_s >= self.ghost_stays_s

    def _end(self, code: int | None) -> StepEnd:
        if self._why.under_way:  # evidence that Slurm forgets as soon as it has requeued the job
            left_s = WHY_S if self._must_leave_s is None else self._must_leave_s - self.clock.monotonic_s()
            self._hear_why(min(left_s - LAST_WORDS_S, WHY_S))
        return StepEnd(code, tuple(self._signals), self._must_leave_s, self._in_grace is True)

    def records(self) -> list[AgentRecord]:
        return agent_records(self.run, self.attempt, self._say_once)

    def _hear(self, number: signal.Signals, child: subprocess.Popen[bytes]) -> None:
        if number is signal.SIGCHLD:
            return
        self._signals.append(number.name)
        if number is signal.SIGINT and self.owner_by_person:
            self._interrupts += 1
            if self._interrupts > 1:
                self.say("second interrupt: ending the training at once")
                child.send_signal(self.second_interrupt)  # a person's word
                return
        if number in (signal.SIGINT, signal.SIGHUP) or (self.owner_by_person and number is signal.SIGTERM):
            self._order(StopReason.OPERATOR, f"{number.name} to srun-resilient", None)
        elif number is signal.SIGTERM:
            if self._must_leave_s is None:
                self._must_leave_s = self.clock.monotonic_s() + self.kill_wait_s
            seconds = max(1.0, self.kill_wait_s - 2 * LAST_WORDS_S)
            self._order(StopReason.TERMINATION, "SIGTERM to the batch script: Slurm is ending the job", seconds)
        else:
            self._order(StopReason.WARNING, f"{number.name} to the batch script", None)

    def _order(self, reason: StopReason, because: str, seconds: float | None) -> None:
        """Write the order, unless it adds nothing to the one that stands."""
        if reason.name in self._ordered:
            return
        self._ordered[reason.name] = self.clock.monotonic_s()
        self._order_due = json.dumps({"reason": reason.name, "because": because, "seconds": seconds}).encode()
        self._write_order()

    def _write_order(self) -> None:
        if self._order_due is None:
            return
        try:
            replace_durably(self.run.stop_order(self.attempt), self._order_due)
        except OSError as error:
            why = error.strerror or error
            self._say_once(f"the stop order could not be written ({why}): only Slurm's own signals reach the ranks")
        else:
            self._order_due = None

    def _say_once(self, text: str) -> None:
        """Of what is met again at every look."""
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def _look_at_records(self) -> None:
        """A node whose command failed leaves the others waiting for it, perhaps for ever: tell them.

        And when they are asked to stop, ask why: Slurm forgets a preemption as soon as it has requeued the job.
        """
        self._write_order()
        records, beats = agents_and_beats(self.run, self.attempt, self._say_once)
        self._ask_why(records)
        self._listen(beats)
        why = self.refused() if StopReason.PEER_FAILED.name not in self._ordered else None
        if why is not None:
            self._order(StopReason.PEER_FAILED, why, None)
        for record in records:
            # A rank that crashes while it leaves keeps torchrun elsewhere waiting for minutes (its exit barrier).
            crashed_leaving = record.outcome is Outcome.FINISHED and bool(record.command_code)
            if record.outcome in _BAD or crashed_leaving:
                self._order(StopReason.PEER_FAILED, f"node agent {record.node_id} on {record.host} failed", None)

    def _listen(self, beats: Mapping[int, Beat]) -> None:
        """Whoever was killed can't say so: srun waits for the others, and they may wait for it."""
        for silent in self._pulse.silent(beats, self.clock.monotonic_s()):
            because = f"node agent {silent} has not been heard for {self._pulse.after_s:.0f} s"
            if StopReason.PEER_FAILED.name not in self._ordered:
                self.say(because)
            # As long as a preemption: if it lives all the same, everybody saves and nothing is lost.
            self._order(StopReason.PEER_FAILED, because, self.after_preemption_s or self.kill_wait_s)

    def _ask_why(self, records: Sequence[AgentRecord]) -> None:
        """Beside the loop: a controller may take half a minute, and the next signal can't wait for that."""
        reasons = {record.stop_reason for record in records} & {"TERMINATION", "WARNING"}
        new = {reason for reason in reasons if reason is not None} - self._asked_why
        if new and not self._in_grace and not self._why.under_way:
            self._asked_why |= new
            self._asked_why_s = self._asked_why_s or self.clock.monotonic_s()
            self._why.ask(self.preempting)
        self._hear_why(0.0)

    def _hear_why(self, seconds: float) -> None:
        answer = self._why.answer(seconds=seconds)
        if isinstance(answer, SlurmError):
            self._asked_why.clear()  # no answer is no "no": asked again at the next look
            return
        if answer is None:
            return
        self._in_grace = answer
        if answer and self.after_preemption_s is not None and self._asked_why == {"WARNING"}:
            since_s = self.clock.monotonic_s() - self._asked_why_s + LOOK_AT_RECORDS_S
            seconds = max(1.0, self.after_preemption_s - since_s)
            self._order(StopReason.TERMINATION, "the warning was a preemption's", seconds)

    def _wait_for_agents(self, notices: Notices, child: subprocess.Popen[bytes]) -> None:
        """srun may be killed while its agents still save: what they are about to write is evidence worth a wait."""
        if child.returncode is None or child.returncode >= 0 or self._interrupts > 1:
            return
        deadline_s = self.clock.monotonic_s() + AGENTS_AFTER_SRUN_S
        if self._must_leave_s is not None:
            deadline_s = min(deadline_s, self._must_leave_s - LAST_WORDS_S)
        while self.clock.monotonic_s() < deadline_s:
            if not any(record.outcome is Outcome.RUNNING for record in self.records()):
                return
            for number in notices.wait(TICK_S):
                self._hear(number, child)
