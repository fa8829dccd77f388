"""Kills real saves at instants spread over their whole duration, and looks at what is left, bit for bit.

::

    python -m tests.faults.kill_sweep --count 200 --bytes 1GiB [--writer-process]

A rank is a forked process that saves, commits, and lets the Sweeper delete what is old. With --writer-process another
process writes and commits, and by turns the rank, its writer, or both are killed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.retention import Policy
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.client import WriterProcess
from slurm_resilience.checkpoint.writer.outcome import Written
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptStarted, CheckpointCommitted, checkpoint_id
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import started_ticks
from slurm_resilience.training.sweeper import Sweeper
from tests.faults.kill_writer import commit

TENSORS = 24
KEEP_LAST = 2
MEASURE_EVERY = 4
"""So many kills between two saves that are left alone: a busy machine is slower from one moment to the next."""
LONG_S = 120.0
PLACES = ("nothing yet", "staged", "renamed", "committed", "finished")


@dataclass(frozen=True, slots=True)
class Kill:
    generation: int
    at_s: float
    killed: str
    """rank, writer or both."""
    found: str
    """How far the save had come: one of PLACES."""


@dataclass(slots=True)
class KillSweep:
    run: Path
    state_bytes: int
    with_writer: bool
    base: list[torch.Tensor] = field(default_factory=list)
    generation: int = 0
    took_s: list[float] = field(default_factory=list)
    """Each undisturbed save."""

    def prepare(self) -> None:
        random_numbers = torch.Generator().manual_seed(7)
        self.base = [torch.rand(self.state_bytes // TENSORS // 4, generator=random_numbers) for _ in range(TENSORS)]
        Journal(RunDirectory(self.run)).create("kill sweep")
        Journal(RunDirectory(self.run)).append(AttemptStarted(1, "local", ("train",), "host"))
        for _ in range(3):
            self.measure()

    def measure(self) -> None:
        """Save a generation undisturbed."""
        took_s, found = self._save(None, "rank")
        assert found == "finished", found
        self.took_s.append(took_s)

    def state(self, generation: int) -> dict[str, Any]:
        """Other content each time, and nothing of it is copied."""
        turned = self.base[generation % TENSORS :] + self.base[: generation % TENSORS]
        return {"model": {f"layer-{number}": tensor for number, tensor in enumerate(turned)}, "step": generation}

    def kill(self, at: float, killed: str) -> Kill:
        """One save, killed after so much of its time, and a verdict on what it left. AssertionError if that is bad."""
        at_s = at * statistics.median(self.took_s[-3:])
        _, found = self._save(at_s, killed)
        self._judge()
        return Kill(self.generation, round(at_s, 4), killed, found)

    def _save(self, at_s: float | None, killed: str) -> tuple[float, str]:
        self.generation += 1
        reading, writing = os.pipe()
        rank = os.fork()
        if rank == 0:
            os.close(reading)
            os._exit(_live(self, writing))
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            writer = int.from_bytes(pipe.read(8) or b"", "little")
            began_s = time.monotonic()
            if at_s is not None:
                time.sleep(at_s)
                for pid in (rank,) if killed == "rank" else (writer,) if killed == "writer" else (writer, rank):
                    if pid:
                        with contextlib.suppress(ProcessLookupError):  # it has ended
                            os.kill(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])
        took_s = time.monotonic() - began_s
        assert code in (0, -signal.SIGKILL), f"the rank left with {code}"
        _wait_for_the_end_of(writer)
        found = self._found(finished=code == 0)
        assert found == "finished" or code or killed != "rank", f"the rank was done, and its checkpoint is {found}"
        return took_s, found

    def _chain(self) -> Chain:
        return Chain.of(Journal(RunDirectory(self.run)).read())

    def _found(self, *, finished: bool) -> str:
        checkpoint = checkpoint_id(self.generation, 1)
        folder = self.run / "checkpoints" / checkpoint
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        if any(each.committed.checkpoint == checkpoint for each in self._chain().checkpoints):
            return "finished" if finished else "committed"
        if "rank-00000.h5" in names:
            return "renamed"
        return "staged" if names else "nothing yet"

    def _judge(self) -> None:
        store = Hdf5Store(self.run)
        live = self._live()
        assert live[-1].step >= self.generation - 1 or self._before_failed(live), f"lost: {live[-1]}"
        for committed in live:
            self._compare(store, committed)
        sweeper = Sweeper(Journal(RunDirectory(self.run)), store, attempt=1, policy=Policy(KEEP_LAST))
        _sweep(sweeper)  # a rank that was killed has not come to it
        live = self._live()
        assert len(live) <= KEEP_LAST
        self._clear(store, {committed.checkpoint: committed for committed in live})

    def _live(self) -> list[CheckpointCommitted]:
        return [each.committed for each in self._chain().checkpoints if each.state is CheckpointState.LIVE]

    def _before_failed(self, live: Sequence[CheckpointCommitted]) -> bool:
        """Whether no generation between the newest and this one was committed at all: they were killed earlier."""
        committed = {each.committed.step for each in self._chain().checkpoints}
        return not any(step in committed for step in range(live[-1].step + 1, self.generation + 1))

    def _compare(self, store: Hdf5Store, committed: CheckpointCommitted) -> None:
        (part,) = committed.parts
        loaded = store.read_part(PartReceipt(part.rank, part.file, part.bytes, part.checksum))
        expected = self.state(committed.step)
        assert loaded["step"] == committed.step
        assert loaded["model"].keys() == expected["model"].keys()
        for name, tensor in expected["model"].items():
            assert torch.equal(loaded["model"][name], tensor), f"{committed.checkpoint}: {name}"

    def _clear(self, store: Hdf5Store, live: dict[Any, CheckpointCommitted]) -> None:
        """What nobody committed is deleted, and then nothing else lies there but what is live."""
        for checkpoint in store.found_on_disk():
            if checkpoint not in live:
                store.delete(checkpoint)
        found = {str(path.relative_to(self.run)) for path in (self.run / "checkpoints").rglob("*") if path.is_file()}
        assert found == {committed.parts[0].file for committed in live.values()}


def _live(sweep: KillSweep, begun: int) -> int:
    """The rank: ready first, then the word that it begins, then the save."""
    try:
        state, run = sweep.state(sweep.generation), sweep.run
        journal, store = Journal(RunDirectory(run)), Hdf5Store(run)
        checkpoint = str(checkpoint_id(sweep.generation, 1))
        if sweep.with_writer:
            writer = WriterProcess(run, [sys.executable, "-m", "tests.faults.kill_writer", str(run)])
            writer.start()
            snapshot = Snapshot(rank=0, threads=2)
            os.write(begun, writer.pid.to_bytes(8, "little"))
            writer.submit(snapshot.take(checkpoint, state, {}, context={"step": sweep.generation}))
            written = isinstance(writer.wait(LONG_S), Written)
            writer.close()
        else:
            os.write(begun, bytes(8))
            commit(
                journal, checkpoint, sweep.generation, store.write_part(checkpoint, rank=0, state=state, attributes={})
            )
            written = True
        if written:
            _sweep(Sweeper(journal, store, attempt=1, policy=Policy(KEEP_LAST)))
    except BaseException:  # noqa: BLE001 the child has nobody else to tell
        traceback.print_exc()
        return 1
    return 0


def _sweep(sweeper: Sweeper) -> None:
    sweeper.after_commit()
    if sweeper._thread is not None:
        sweeper._thread.join()


def _wait_for_the_end_of(writer: int) -> None:
    """It is not our child: it finishes what is whole in its memory after its rank has died."""
    until_s = time.monotonic() + LONG_S
    while writer and started_ticks(writer) is not None:
        assert time.monotonic() < until_s, "the writer doesn't end"
        time.sleep(0.005)


def sweep(run: Path, *, count: int, state_bytes: int, with_writer: bool, seed: int) -> tuple[float, list[Kill]]:
    """The seconds an undisturbed save takes, and every kill. AssertionError at the first that left something bad."""
    torch.set_num_threads(1)  # a forked process has lost the others
    killer = KillSweep(run, state_bytes, with_writer)
    killer.prepare()
    who = ("rank", "writer", "both") if with_writer else ("rank",)
    plan = [((number + 0.5) / count, who[number % len(who)]) for number in range(count)]
    random.Random(seed).shuffle(plan)
    kills = []
    for number, (at, killed) in enumerate(plan, 1):
        kills.append(killer.kill(at, killed))
        if number % MEASURE_EVERY == 0:
            killer.measure()
    return statistics.median(killer.took_s), kills


def table(kills: Sequence[Kill]) -> str:
    counted = collections.Counter((kill.killed, kill.found) for kill in kills)
    head = f"{'killed':<8}" + "".join(f"{place:>13}" for place in PLACES)
    rows = [
        f"{killed:<8}" + "".join(f"{counted[killed, place]:>13}" for place in PLACES)
        for killed in ("rank", "writer", "both")
        if any(kill.killed == killed for kill in kills)
    ]
    return "\n".join([head, *rows])


def in_bytes(text: str) -> int:
    """`64MiB`, `1GiB` or plain bytes."""
    match = re.fullmatch(r"([0-9]+)(|KiB|MiB|GiB)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, KiB, MiB or GiB")
    return int(match[1]) << {"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[match[2]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--bytes", type=in_bytes, default=in_bytes("1GiB"))
    parser.add_argument("--writer-process", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to make the run directory (default: a temporary one)")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        took_s, kills = sweep(
            Path(folder) / "run",
            count=asked.count,
            state_bytes=asked.bytes,
            with_writer=asked.writer_process,
            seed=asked.seed,
        )
    if asked.json:
        print(json.dumps([asdict(kill) for kill in kills]))
    else:
        print(f"{len(kills)} kills over the {took_s:.2f} s of a save of {asked.bytes >> 20} MiB; whole all the times:")
        print(table(kills))
    return 0


if __name__ == "__main__":
    sys.exit(main())
