"""The files in tests/checkpoints: what was once written is read for ever, what is wrong is refused for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnsupported
from tests.checkpoints.make import ATTRIBUTES, HERE, WRONG, WRONG_BORROWING, make, states

MUST_LOAD = sorted(path.parent for path in (HERE / "must_load").rglob("receipt.json"))
MUST_REFUSE = sorted(path.parent for path in (HERE / "must_refuse").rglob("receipt.json"))


def _name(folder: Path) -> str:
    return str(folder.relative_to(HERE))


def _receipt(folder: Path) -> PartReceipt:
    return PartReceipt(**json.loads((folder / "receipt.json").read_text()))


@pytest.mark.parametrize("folder", MUST_LOAD, ids=_name)
def test_a_part_that_was_once_written_is_read_for_ever(folder: Path) -> None:
    store, receipt = Hdf5Store(folder), _receipt(folder)
    loaded = store.read_part(receipt)
    assert compare_states(states()[folder.name], loaded) == []
    assert store.read_attributes(receipt) == ATTRIBUTES
    store.verify_part(receipt)


@pytest.mark.parametrize("folder", MUST_REFUSE, ids=_name)
def test_a_part_that_is_wrong_is_refused_for_ever(folder: Path) -> None:
    expected = {"damaged": CheckpointDamaged, "unsupported": CheckpointUnsupported}[folder.parent.name]
    with pytest.raises(expected) as caught:
        Hdf5Store(folder).read_part(_receipt(folder))
    assert _receipt(folder).file in str(caught.value)


def test_the_corpus_is_complete(tmp_path: Path) -> None:
    assert {folder.name for folder in MUST_LOAD} == states().keys()
    assert {f"{folder.parent.name}/{folder.name}" for folder in MUST_REFUSE} == (WRONG | WRONG_BORROWING).keys()
    make(tmp_path)  # its bytes may differ between versions of HDF5: what they say may not
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert all((HERE / path).is_file() for path in made)
