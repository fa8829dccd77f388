"""A training without torch: it starts in a quarter of a second, and its state shows every step that it ever took.

Rank 0 trains: its state is a chain of hashes, so that a step done twice, left out or taken from somewhere else ends in
another value. The other tasks only stop when they are asked to. It speaks with the node agent and the manifest as the
training library does; what a checkpoint's part looks like is its own affair.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.errors import Fenced
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptResumed,
    CheckpointCommitted,
    CheckpointId,
    Part,
    SaveReason,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase, StopPageReader
from slurm_resilience.signals.stop_request import StopReason

SPOILT = 13
"""A checkpoint that the manifest names isn't whole."""
BEFORE_COMMIT_S = 0.05
"""Between a part's being durable and its commit: the moment that kills like to miss."""


def value_after(steps: int) -> str:
    """The state of a training that nobody ever disturbed."""
    value = ""
    for step in range(1, steps + 1):
        value = next_value(value, step)
    return value


def next_value(value: str, step: int) -> str:
    return hashlib.sha256(f"{value} {step}".encode()).hexdigest()


@dataclass
class LightTraining:
    run: RunDirectory
    attempt: int
    page: RankPageWriter
    stop: StopPageReader
    rank: int
    steps: int
    save_every: int
    step_s: float
    finishes_in: int
    """No attempt before this one takes the last step: it waits there for what is done to it."""
    step: int = 0
    value: str = ""
    saved: int = -1

    @property
    def done(self) -> Path:
        return self.run.attempt(self.attempt) / "light-done"

    def say(self, phase: RankPhase, stopped_after: int = -1) -> None:
        step = max(self.step, 0)
        self.page.write(RankPage(phase, self.rank, 0, os.getpid(), step, stopped_after, self.saved, time.monotonic()))

    def train(self) -> int:
        journal = Journal(self.run)
        with (self.run.path / "ids").open("a") as ids:  # what a tracker would call this training
            ids.write(os.environ["SLURM_RESILIENCE_RUN_ID"] + "\n")
        self.say(RankPhase.STARTING)
        self._come_back(journal)
        while self.step < self.steps:
            if self.stop.asked():
                request = self.stop.read()
                if request is None or request.reason is not StopReason.FENCED:
                    self._save(journal, SaveReason.STOP)
                self.say(RankPhase.STOPPED, stopped_after=self.step)
                return 0
            time.sleep(self.step_s)
            if self.step == self.steps - 1 and self.attempt < self.finishes_in:
                self.say(RankPhase.STEPPING)
                continue
            self.step += 1
            self.value = next_value(self.value, self.step)
            self.say(RankPhase.STEPPING)
            if self.step % self.save_every == 0 and self.step < self.steps:
                self._save(journal, SaveReason.PERIODIC)
        self._save(journal, SaveReason.FINAL)
        journal.append(TrainingFinished(self.attempt, self.step), fence=self.attempt)
        self.done.touch()
        self.say(RankPhase.FINISHED)
        return 0

    def stand_by(self) -> int:
        self.say(RankPhase.STEPPING)
        while not self.done.exists():
            if self.stop.asked():
                self.say(RankPhase.STOPPED, stopped_after=0)
                return 0
            time.sleep(0.1)
        self.say(RankPhase.FINISHED)
        return 0

    def _come_back(self, journal: Journal) -> None:
        loadable = Chain.of(journal.read()).loadable()
        checkpoint: CheckpointId | None = None
        if loadable:
            committed = loadable[0].committed
            raw = (self.run.path / committed.parts[0].file).read_bytes()
            if hashlib.sha256(raw).hexdigest() != committed.parts[0].checksum:
                sys.stderr.write(f"light training: {committed.checkpoint} is not what was written\n")
                raise SystemExit(SPOILT)
            state = json.loads(raw)
            checkpoint, self.step, self.value = committed.checkpoint, state["step"], state["value"]
        journal.append(AttemptResumed(self.attempt, checkpoint, self.step, 1), fence=self.attempt)

    def _save(self, journal: Journal, reason: SaveReason) -> None:
        if self.saved == self.step and reason is not SaveReason.FINAL:
            return
        self.say(RankPhase.SAVING)
        name = checkpoint_id(self.step, self.attempt, final=reason is SaveReason.FINAL)
        data = json.dumps({"step": self.step, "value": self.value}).encode()
        file = self.run.checkpoints / name / "part"
        make_directory_durably(file.parent)
        replace_durably(file, data)
        time.sleep(BEFORE_COMMIT_S)
        part = Part(0, str(file.relative_to(self.run.path)), len(data), hashlib.sha256(data).hexdigest())
        committed = CheckpointCommitted(name, self.step, self.attempt, reason, 1, (part,), BEFORE_COMMIT_S)
        journal.append(committed, fence=self.attempt)
        self.saved = self.step


def main(steps: str, save_every: str, step_s: str, later_step_s: str, finishes_in: str = "1") -> int:
    for number in (
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):  # a plain command is told: the stop page says it, too
        signal.signal(number, lambda *_: None)
    runtime, rank = Path(os.environ["SLURM_RESILIENCE_RUNTIME"]), int(os.environ.get("SLURM_PROCID", "0"))
    attempt = int(os.environ["SLURM_RESILIENCE_ATTEMPT"])
    local = int(os.environ.get("SLURM_LOCALID", "0"))
    with RankPageWriter(runtime, local) as page, StopPageReader(runtime) as stop:
        training = LightTraining(
            RunDirectory(Path(os.environ["SLURM_RESILIENCE_RUN"])),
            attempt,
            page,
            stop,
            rank,
            int(steps),
            int(save_every),
            float(step_s if attempt < max(2, int(finishes_in)) else later_step_s),
            int(finishes_in),
        )
        try:
            return training.train() if rank == 0 else training.stand_by()
        except Fenced as fenced:
            sys.stderr.write(f"light training: {fenced}\n")
            return fenced.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
