"""The writer of a part dies at every line it executes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from tests.crash.die_at_line import PACKAGE, die_at_line

OLD = "step-0000000100.a1"
NEW = "step-0000000200.a2"


def _state(value: float) -> dict[str, object]:
    tied = torch.full((3, 2), value, dtype=torch.bfloat16)
    return {"model": {"a": tied, "b": tied}, "step": torch.tensor(value), "note": "x"}


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


# All that makes, names and removes files.
NAMING = tuple(
    PACKAGE / name for name in ("checkpoint/hdf5_store.py", "checkpoint/disk/staged_file.py", "durable_file.py")
)
# And all that moves bytes, in two threads. The other modules only plan, before the first call to the file system.
WRITING = (*NAMING, PACKAGE / "checkpoint/disk")


@pytest.mark.parametrize(
    ("within", "stride"),
    [(NAMING, 1), (WRITING, 7), ((PACKAGE,), 61)],
    ids=["naming", "writing", "planning too"],
)
def test_a_writer_that_dies_at_any_line_leaves_no_part_or_a_whole_one_and_the_old_one_untouched(
    tmp_path: Path, within: tuple[Path, ...], stride: int
) -> None:
    reference = tmp_path / "reference"
    whole = Hdf5Store(reference).write_part(NEW, rank=0, state=_state(2.0), attributes={"step": 200})
    expected = (reference / whole.file).read_bytes()

    root = tmp_path / "run"
    store = Hdf5Store(root)
    old = store.write_part(OLD, rank=0, state=_state(1.0), attributes={"step": 100})
    before = _files(root)

    def write() -> None:
        writer = Hdf5Store(root) if within == (PACKAGE,) else store  # which has planned such a part before
        writer.write_part(NEW, rank=0, state=_state(2.0), attributes={"step": 200})

    line = 1
    seen: set[str] = set()
    while die_at_line(line, write, within=within):
        files = _files(root)
        assert {name: files.get(name) for name in before} == before, f"line {line} touched the old checkpoint"
        for name in files.keys() - before.keys():
            if name == whole.file:
                assert files[name] == expected, f"line {line} left a part that isn't whole"
                seen.add("whole")
            else:
                assert Path(name).name.startswith(f".rank-00000.h5.{NEW}."), f"line {line} left {name}"
                seen.add("staging")
        store.delete(NEW)
        assert _files(root) == before, f"after line {line} delete left something"
        assert not (root / "checkpoints" / NEW).exists()
        line += stride
    assert line > 100, "the sweep saw too few lines to mean anything"
    assert stride > 1 or seen == {"staging", "whole"}
    assert store.verify_part(old)
    assert store.verify_part(whole)


def test_a_deleter_that_dies_at_any_line_leaves_the_other_checkpoint_whole_and_can_be_repeated(tmp_path: Path) -> None:
    store = Hdf5Store(tmp_path)
    kept = store.write_part(OLD, rank=0, state=_state(1.0), attributes={})
    line = 1
    going = True
    while going:
        for rank in range(2):
            store.write_part(NEW, rank=rank, state=_state(2.0), attributes={})
        going = die_at_line(line, lambda: Hdf5Store(tmp_path).delete(NEW), within=NAMING)
        assert store.verify_part(kept)
        store.delete(NEW)
        assert not (tmp_path / "checkpoints" / NEW).exists()
        line += 1
    assert line > 10
