"""A training without torch whose state is the sum of its steps: task 0 trains and commits, the others wait for it.

It speaks with the node agent and the journal as the training library does. `STEPS SAVE_EVERY STEP_SECONDS`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.errors import Fenced
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptResumed,
    CheckpointCommitted,
    Part,
    SaveReason,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.runtime_folder import RankPage, RankPageWriter, RankPhase, StopPageReader
from slurm_resilience.signals.stop_request import StopReason

RUN = RunDirectory(Path(os.environ["SLURM_RESILIENCE_RUN"]))
ATTEMPT = int(os.environ["SLURM_RESILIENCE_ATTEMPT"])
RANK = int(os.environ["SLURM_PROCID"])
DONE = RUN.attempt(ATTEMPT) / "done"


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def save(journal: Journal, step: int, total: int, reason: SaveReason) -> None:
    name = checkpoint_id(step, ATTEMPT, final=reason is SaveReason.FINAL)
    data = f"{step} {total}".encode()
    file = RUN.checkpoints / name / "part"
    make_directory_durably(file.parent)
    replace_durably(file, data)
    part = Part(0, str(file.relative_to(RUN.path)), len(data), checksum(data))
    journal.append(CheckpointCommitted(name, step, ATTEMPT, reason, 1, (part,), 0.0), fence=ATTEMPT)


def resume(journal: Journal) -> tuple[int, int]:
    loadable = Chain.of(journal.read()).loadable()
    step = total = 0
    if loadable:
        [part] = loadable[0].committed.parts
        data = (RUN.path / part.file).read_bytes()
        assert checksum(data) == part.checksum, f"{part.file} is not what was written"
        step, total = (int(word) for word in data.split())
    checkpoint = loadable[0].committed.checkpoint if loadable else None
    journal.append(AttemptResumed(ATTEMPT, checkpoint, step, 1), fence=ATTEMPT)
    return step, total


def train(page: RankPageWriter, stop: StopPageReader, steps: int, save_every: int, step_s: float) -> int:
    journal = Journal(RUN)
    step, total = resume(journal)

    def say(phase: RankPhase, stopped: int = -1) -> None:
        page.write(RankPage(phase, RANK, 0, os.getpid(), step, stopped, -1, time.monotonic()))

    while step < steps:
        say(RankPhase.STEPPING)
        request = stop.read() if stop.asked() else None
        if request is not None:
            if request.reason is not StopReason.FENCED:
                save(journal, step, total, SaveReason.STOP)
            say(RankPhase.STOPPED, step)
            return 0
        time.sleep(step_s)
        step += 1
        total += step
        if step % save_every == 0 and step < steps:
            save(journal, step, total, SaveReason.PERIODIC)
    save(journal, step, total, SaveReason.FINAL)
    journal.append(TrainingFinished(ATTEMPT, step), fence=ATTEMPT)
    DONE.touch()
    say(RankPhase.FINISHED)
    return 0


def stand_by(page: RankPageWriter, stop: StopPageReader) -> int:
    def say(phase: RankPhase, stopped: int = -1) -> None:
        page.write(RankPage(phase, RANK, 0, os.getpid(), 0, stopped, -1, time.monotonic()))

    say(RankPhase.STEPPING)
    while not DONE.exists():
        if stop.asked():
            say(RankPhase.STOPPED, 0)
            return 0
        time.sleep(0.1)
    say(RankPhase.FINISHED)
    return 0


def main(steps: str, save_every: str, step_s: str) -> int:
    for number in (signal.SIGTERM, signal.SIGUSR1):  # the stop page says it, too
        signal.signal(number, lambda *_: None)
    runtime = Path(os.environ["SLURM_RESILIENCE_RUNTIME"])
    with RankPageWriter(runtime, int(os.environ["SLURM_LOCALID"])) as page, StopPageReader(runtime) as stop:
        try:
            if RANK == 0:
                return train(page, stop, int(steps), int(save_every), float(step_s))
            return stand_by(page, stop)
        except Fenced as fenced:
            sys.stderr.write(f"{fenced}\n")
            return fenced.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
