"""The process that reads spoilt parts: python -m tests.fuzz.reader FOLDER SEED FIRST COUNT.

It says each number before it reads that one, so that whoever watches knows at which it died or hung, and every finding
as a JSON object. It may not run code, write, open what is not the part's, nor take much memory.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.errors import CheckpointError
from tests.fuzz.mutations import Mutant, mutate
from tests.fuzz.sample import CHECKPOINT, Sample, write_samples
from tests.fuzz.watch import Watch

MOST_BYTES = 256 << 20
"""What reading a part of 2 MB may take of the address space, beyond what reading whole ones took."""


WARMING_UP = 100
"""So many parts, of each process."""


def main(folder: Path, seed: int, first: int, count: int) -> int:
    """Numbers `first` to `first + count - 1` of `seed`. 0 also where something was found: that is told."""
    shutil.rmtree(folder, ignore_errors=True)
    samples = write_samples(folder / "samples")
    watch = Watch(folder)
    for sample in samples:  # what is loaded only when it is needed is loaded now
        _read(folder / "samples" / sample.name, Mutant("", "", sample.files, sample.receipt, forged=False), sample)
    _limit_memory()
    for number in range(first, first + count):
        print(number, flush=True)
        for wrong in _try(folder, samples, seed, number, watch, twice=number < first + WARMING_UP):
            print(json.dumps({"finding": wrong}), flush=True)
    print("end", flush=True)
    return 0


def _try(folder: Path, samples: list[Sample], seed: int, number: int, watch: Watch, *, twice: bool) -> list[str]:
    """With `twice` it is read once without looking: Python loads modules when an error needs them."""
    sample, mutant = mutate(Random(f"{seed}:{number}"), samples)
    root = folder / "run"
    shutil.rmtree(root, ignore_errors=True)
    where = root / "checkpoints" / CHECKPOINT
    where.mkdir(parents=True)
    for name, content in mutant.files.items():
        if content is None:
            (where / name).mkdir()
        else:
            (where / name).write_bytes(content)
    print(json.dumps({"kind": mutant.kind, "sample": sample.name, "what": mutant.what[:300]}), flush=True)
    if twice:
        _read(root, mutant, sample)
    before_bytes = _peak_bytes()
    with watch:
        wrong = _read(root, mutant, sample)
    wrong += watch.seen()
    taken_bytes = _peak_bytes() - before_bytes
    if taken_bytes > MOST_BYTES:
        wrong.append(f"took {taken_bytes >> 20} MiB")
    return wrong


def _read(root: Path, mutant: Mutant, sample: Sample) -> list[str]:
    """What is wrong with how it was read: nothing, where the right content came or an error that says why not."""
    store = Hdf5Store(root)
    wrong = []
    verbs: list[Callable[[], Any]] = [
        lambda: store.read_part(mutant.receipt),
        lambda: store.verify_part(mutant.receipt),
        lambda: store.read_attributes(mutant.receipt),
    ]
    for index, verb in enumerate(verbs):
        try:
            found = verb()
        except CheckpointError:
            continue
        except BaseException as error:  # noqa: BLE001 it is what we look for
            wrong.append(f"{type(error).__name__}: {str(error)[:200]} at {_place_of(error)}")
            continue
        if index == 0 and not mutant.forged and compare_states(sample.state, found):
            wrong.append("other content was returned")
        if index != 1 and (type(found) is not dict or "canary" in found):
            wrong.append("a file was read that nobody vouched for" if "canary" in found else "no state was returned")
    return wrong


def _place_of(error: BaseException) -> str:
    """Where it was raised, without opening the source: that would be noticed."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "?" if at is None else f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _peak_bytes() + 4 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmPeak:")[1].split()[0]) * 1024


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
