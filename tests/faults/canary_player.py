"""`python canary_player.py RUN HOW`: a training and its supervisor, as their run directory shows them, for a canary."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, RankEnd, write_agent_record
from slurm_resilience.manifest.attempt import begin_attempt, release
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    Cause,
    CheckpointCommitted,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness

STEP_S = 0.02
LONGEST_STEPS = 15_000
"""It ends by itself, whatever became of the test: five minutes."""


class Player:
    def __init__(self, run: RunDirectory, how: str) -> None:
        self.run, self.how = run, how
        self.journal = Journal(run)
        self.journal.create("canary")
        self.number = begin_attempt(
            run,
            mode="local",
            command=["train.py"],
            job=None,
            restart_count=None,
            cluster=None,
            nodes=None,
            liveness_by_slurm=lambda _: Liveness.GONE,
        )
        run.attempt(self.number).mkdir(parents=True)
        run.stop_file.unlink(missing_ok=True)
        self.step = 0

    def play(self) -> int:
        if self.how != "uses no library":
            self._resume()
        if self.how == "crashes when it resumes" and self.number == 2:
            return self._end(Cause.CRASHED, "KeyError: 'momentum'", 1)
        for _ in range(LONGEST_STEPS):
            if self.how == "is preempted" and self.step == 2:
                return self._end(Cause.PREEMPTED, "job 7 is being preempted", 75)
            if self.how == "finishes early" and self.step == 2:
                return self._end(Cause.FINISHED, "the training came to its own end", 0)
            if self.run.stop_file.exists() and self.how != "does not stop":
                break
            self._make_step()
        if self.how not in ("saves nothing", "uses no library"):
            self._save()
        if self.how == "dies when it stops":
            return self._end(Cause.HUNG, "the ranks did not stop", 1)
        return self._end(Cause.OPERATOR_STOP, "somebody asked it to", 76)

    def _resume(self) -> None:
        chain = Chain.of(self.journal.read())
        newest = chain.loadable()[0].committed if chain.loadable() else None
        self.step = newest.step if newest is not None else 0
        name = newest.checkpoint if newest is not None else None
        if self.how == "begins anew" and newest is not None:
            self.step, name = 0, None
        if self.how == "goes back" and newest is not None:
            self.step -= 1
        self.journal.append(AttemptResumed(self.number, name, self.step, 1))

    def _make_step(self) -> None:
        time.sleep(STEP_S)
        if self.how != "makes no step":
            self.step += 1
        rank = RankEnd(0, 0, 1, "TRAINING", self.step if self.how != "uses no library" else -1, -1, -1)
        record = AgentRecord(0, "here", 1, 0.0, Outcome.RUNNING, ranks=(rank,))
        write_agent_record(self.run.agent_record(self.number, 0), record)

    def _save(self) -> None:
        name = checkpoint_id(self.step, self.number)
        self.journal.append(
            CheckpointCommitted(name, self.step, self.number, SaveReason.STOP, 1, (), 0.1), fence=self.number
        )

    def _end(self, cause: Cause, because: str, code: int) -> int:
        self.journal.append(AttemptEnded(self.number, cause, because, (), "stop", because, code))
        release(self.run, self.number)
        return code


def main(run: str, how: str) -> int:
    if how == "can't be started":
        sys.stderr.write("srun-resilient: srun's --nodes=9, but job 7 has 2 nodes\n")
        return 78
    return Player(RunDirectory(Path(run)), how).play()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
