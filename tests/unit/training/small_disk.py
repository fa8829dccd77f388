"""A disk that is as small as the test wants, with checkpoints of one size on it."""

from __future__ import annotations

from pathlib import Path

from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted, CheckpointCommitted, Part, SaveReason, checkpoint_id
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.kept_ballast import KeptBallast
from slurm_resilience.training.look_ahead import LookAhead
from slurm_resilience.training.room import RoomMaker, needs_of
from tests.unit.training.fakes import MemoryStore

PART_BYTES = 1 << 20
SAVE_BYTES = needs_of(PART_BYTES, 1).bytes


class SmallDisk(MemoryStore):
    """Files of `sizes` bytes in folders; what is deleted is free."""

    def __init__(self, folder: Path, *, size_bytes: int, policy: Policy, attempt: int = 2, cap_bytes: int = 0) -> None:
        super().__init__()
        self.size_bytes = size_bytes
        self.run = RunDirectory(folder / "run")
        self.journal = Journal(self.run)
        self.journal.create("test")
        for number in range(1, attempt + 1):
            self.journal.append(AttemptStarted(number, "local", (), "host"))
        self.attempt = attempt
        self.said: list[str] = []
        self.ballast = KeptBallast(self.run.checkpoints, cap_bytes=cap_bytes, room=self.room)
        self.maker = RoomMaker(
            journal=self.journal,
            store=self,
            attempt=attempt,
            policy=policy,
            ballast=self.ballast,
            room=self.room,
            say=self.said.append,
        )
        self.ahead = LookAhead(
            journal=self.journal, policy=policy, ballast=self.ballast, room=self.room, say=self.said.append
        )

    def write(self, checkpoint: str, size_bytes: int = PART_BYTES) -> None:
        """A folder with one file in it, which takes no real room."""
        path = self.run.checkpoints / checkpoint / "rank-00000.h5"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size_bytes)

    def save(self, step: int, reason: SaveReason = SaveReason.PERIODIC) -> str:
        name = checkpoint_id(step, self.attempt, final=reason is SaveReason.FINAL)
        self.write(name)
        part = Part(0, f"checkpoints/{name}/rank-00000.h5", PART_BYTES, "xxh3-128:00:1")
        self.journal.append(CheckpointCommitted(name, step, self.attempt, reason, 1, (part,), 1.0))
        return name

    def delete(self, checkpoint: str) -> None:
        super().delete(checkpoint)
        for path in (self.run.checkpoints / checkpoint).glob("rank-*"):
            path.unlink()

    def room(self) -> Room:
        used = sum(path.stat().st_size for path in self.run.checkpoints.glob("*/*")) + self.ballast.held_bytes()
        return Room(self.size_bytes - used, None)

    def live_steps(self) -> list[int]:
        chain = Chain.of(self.journal.read())
        return [each.committed.step for each in chain.checkpoints if each.state is CheckpointState.LIVE]
