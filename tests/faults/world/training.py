"""A job step with a training in it, played: node agents, ranks and checkpoints as the run directory shows them.

Its state is a chain of hashes (tests/slurm/light_training.py): a step done twice, left out or taken from somewhere else
ends in another value.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace

from slurm_resilience.errors import Fenced
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, RankEnd, write_agent_record
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptResumed,
    CheckpointCommitted,
    CheckpointId,
    Part,
    Record,
    SaveReason,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.faults.world.clock import VirtualTime
from tests.slurm.light_training import next_value

STEPS, SAVE_EVERY, STEP_S, START_S = 10, 2, 30.0, 5.0
SAVE_S = 2.0
BOUNDARY_S = 5.0
"""To the next place where the ranks can stop."""
CRASHED, STOPPED, FENCED, SIGKILLED = 1, 75, 79, 137


class Training:
    def __init__(
        self,
        time: VirtualTime,
        run: RunDirectory,
        journal: Journal,
        attempt: int,
        nodes: tuple[str, ...],
        *,
        stops_at_s: float | None,
        resumed: Callable[[Training, Chain], None],
        at_end: Callable[[], None],
    ) -> None:
        """`stops_at_s`: when the agents ask the ranks to stop by themselves. `resumed` sees what it goes on from."""
        self.attempt = attempt
        self.step = 0
        self.over = False
        self.code = 0
        self.lives = False
        """It holds a state and trains."""
        self._time = time
        self._run = run
        self._journal = journal
        self._resumed = resumed
        self._at_end = at_end
        self._value = ""
        self._saved = -1
        self._stop: tuple[str, str, float] | None = None
        self._crash = ""
        self._lost: set[int] = set()
        now_s = time.now_s
        self._records = [AgentRecord(n, node, 1, now_s, Outcome.RUNNING) for n, node in enumerate(nodes)]
        run.attempt(attempt).mkdir(parents=True, exist_ok=True)
        for record in self._records:
            write_agent_record(run.agent_record(attempt, record.node_id), record)
        time.after(START_S, self._begin)
        if stops_at_s is not None:
            time.after(max(0.0, stops_at_s - now_s), lambda: self.hear("TIME_LIMIT", "the job's time is nearly over"))

    @property
    def agent_lives(self) -> bool:
        """The first node's agent: the one that sends a deputy."""
        return 0 not in self._lost

    def hear(self, reason: str, because: str) -> None:
        if self._stop is None:
            self._stop = reason, because, self._time.now_s
            if self.lives:
                self._time.after(BOUNDARY_S, self._turn)

    def crash(self, words: str) -> None:
        """At its next step."""
        self._crash = words

    def lose_node(self, node: int) -> None:
        """Its agent and its ranks are gone without a word."""
        self._lost.add(node)

    def kill_agent(self, node: int) -> None:
        self._lost.add(node)
        self.hear("PEER_FAILED", f"node agent {node} is gone")

    def kill(self) -> None:
        """Everything of it at once."""
        if not self.over:
            self._lost = {0, 1}
            self._leave(SIGKILLED)

    def _begin(self) -> None:
        if self.over:
            return
        chain = Chain.of(self._journal.read())
        loadable = chain.loadable()
        checkpoint: CheckpointId | None = None
        if loadable:
            committed = loadable[0].committed
            raw = (self._run.path / committed.parts[0].file).read_bytes()
            assert hashlib.sha256(raw).hexdigest() == committed.parts[0].checksum
            state = json.loads(raw)
            checkpoint, self.step, self._value = committed.checkpoint, state["step"], state["value"]
        if self._append(AttemptResumed(self.attempt, checkpoint, self.step, 2)):
            self.lives = True
            self._resumed(self, chain)
            self._time.after(STEP_S if self._stop is None else BOUNDARY_S, self._turn)

    def _turn(self) -> None:
        """A step boundary."""
        if self.over:
            return
        if self._stop is not None:
            self._time.after(SAVE_S, self._stop_here)
            return
        self.step += 1
        self._value = next_value(self._value, self.step)
        if self._crash:
            self._fall()
        elif self.step >= STEPS:
            if self._save(SaveReason.FINAL) and self._append(TrainingFinished(self.attempt, self.step)):
                self._leave(0)
        elif self.step % SAVE_EVERY != 0 or self._save(SaveReason.PERIODIC):
            asked = self._stop is not None  # perhaps only since: while it was saved
            self._time.after(0.0 if asked else STEP_S, self._turn)

    def _stop_here(self) -> None:
        if not self.over and (self._lost or self._save(SaveReason.STOP)):
            self._leave(STOPPED if not self._lost else CRASHED)

    def _fall(self) -> None:
        error = self._run.rank_error(self.attempt, 0)
        error.write_text(f"Traceback (most recent call last):\n{self._crash}\n")
        os.utime(error, (self._time.now_s, self._time.now_s))
        self._leave(CRASHED)

    def _append(self, record: Record) -> bool:
        try:
            self._journal.append(record, fence=self.attempt)
        except Fenced as fenced:
            self._stop = ("FENCED", str(fenced), self._time.now_s)
            self._leave(FENCED)
            return False
        return True

    def _save(self, reason: SaveReason) -> bool:
        if self._saved == self.step and reason is not SaveReason.FINAL:
            return True
        name = checkpoint_id(self.step, self.attempt, final=reason is SaveReason.FINAL)
        data = json.dumps({"step": self.step, "value": self._value}).encode()
        file = self._run.checkpoints / name / "part"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        part = Part(0, str(file.relative_to(self._run.path)), len(data), hashlib.sha256(data).hexdigest())
        committed = CheckpointCommitted(name, self.step, self.attempt, reason, 2, (part,), SAVE_S)
        self._saved = self.step
        return self._append(committed)

    def _leave(self, code: int) -> None:
        self.over, self.lives, self.code = True, False, code
        outcome = {0: Outcome.FINISHED, STOPPED: Outcome.STOPPED, FENCED: Outcome.STOPPED}.get(code, Outcome.FAILED)
        reason, because, asked_s = self._stop or (None, None, None)
        signals = (("SIGTERM", asked_s),) if reason == "TERMINATION" and asked_s is not None else ()
        for record in self._records:
            if record.node_id in self._lost:
                continue
            told = replace(
                record,
                outcome=outcome,
                signals=signals,
                stop_reason=reason,
                stop_because=because,
                stop_asked_s=asked_s,
                ranks=(RankEnd(record.node_id, 0, 1, "STOPPED", self.step, self._saved, self.step),),
                command_code=code,
                ended_s=self._time.now_s,
            )
            write_agent_record(self._run.agent_record(self.attempt, record.node_id), told)
        self._at_end()
