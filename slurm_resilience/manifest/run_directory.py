"""Where everything of a run lies. Only paths; who writes what is said beside each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


def life_of(job: str, restart_count: int | None) -> str:
    """`123-0`, `77_4-2`: a job from one start to its end. A life may have several attempts (restarts in place)."""
    return f"{job}-{restart_count or 0}"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    path: Path

    @property
    def journal(self) -> Path:
        """The manifest: appended to by the supervisor and by rank 0, under the lock."""
        return self.path / "manifest.jsonl"

    @property
    def lock(self) -> Path:
        return self.path / "manifest.lock"

    @property
    def lease(self) -> Path:
        """Which attempt owns the run; replaced under the lock by the supervisor."""
        return self.path / "lease.json"

    @property
    def stop_file(self) -> Path:
        """Touched by a person or by `slurm-resilience stop`: the running attempt stops and doesn't go on."""
        return self.path / "stop"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def attempt(self, number: int) -> Path:
        return self.attempts / f"{number:04d}"

    def plan(self, attempt: int) -> Path:
        """What the node agents of this attempt have to do: written by the supervisor before they start."""
        return self.attempt(attempt) / "plan.json"

    def stop_order(self, attempt: int) -> Path:
        """The supervisor's word to the node agents of this attempt to stop: JSON, replaced durably."""
        return self.attempt(attempt) / "stop.json"

    def end_of_time(self, attempt: int) -> Path:
        """When the job's time is over now, if Slurm has moved it since the plan: written by the supervisor."""
        return self.attempt(attempt) / "end_of_time.json"

    @property
    def attempts(self) -> Path:
        return self.path / "attempts"

    def rendezvous(self, attempt: int) -> Path:
        """Where the ranks of this attempt meet: written by the first node's agent, read by the others."""
        return self.attempt(attempt) / "rendezvous.json"

    def agent_record(self, attempt: int, node_id: int) -> Path:
        """What happened on one node: replaced by its node agent as it goes."""
        return self.attempt(attempt) / f"node-{node_id:04d}.json"

    def agent_records(self, attempt: int) -> list[Path]:
        return sorted(self.attempt(attempt).glob("node-*.json"))

    def exit_notes(self, job: str, restart_count: int | None) -> Path:
        """What Slurm's plugin tells of one life of a job: `NODE.jsonl` how its tasks there ended, `NODE.health.json`
        what is wrong with the node, `end.json` when its time is over. Written on the nodes, as the user."""
        return self.path / "exit-notes" / life_of(job, restart_count)

    def preflight(self, job: str | None, restart_count: int | None) -> Path:
        """What preflight found out about the nodes of one life of a job, the offsets of their clocks among it: JSON."""
        return self.path / "preflight" / f"{'local' if job is None else life_of(job, restart_count)}.json"

    def rank_error(self, attempt: int, rank: int) -> Path:
        """The exception that ended a rank, as text: written by the training library."""
        return self.attempt(attempt) / f"error-rank-{rank:05d}.txt"
