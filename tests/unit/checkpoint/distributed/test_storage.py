"""torch.distributed.checkpoint on one rank, writing and reading our files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.utils import find_state_dict_object

from slurm_resilience.checkpoint.distributed.storage_writer import HDF5StorageWriter, Save
from slurm_resilience.errors import (
    CheckpointDamaged,
    CheckpointMismatch,
    CheckpointUnavailable,
    CheckpointUnsupported,
    ConfigurationError,
)
from slurm_resilience.integrations.dcp import load, save
from tests.crash.die_at_line import PACKAGE, die_at_line

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

WRITING = tuple(PACKAGE / name for name in ("checkpoint/distributed/storage_writer.py", "durable_file.py"))


def state(value: float) -> dict[str, Any]:
    weight = torch.full((3, 2), value, dtype=torch.bfloat16)
    return {"model": {"weight": weight, "tied": weight}, "counts": [value, (1, "x")], "scalar": torch.tensor(value)}


def blank() -> dict[str, Any]:
    return {**state(0.0), "model": {"weight": torch.zeros(3, 2), "tied": torch.zeros(3, 2)}}


def loaded(folder: Path) -> dict[str, Any]:
    target = blank()
    load(target, folder)
    return target


def test_tensors_and_plain_values_come_back(tmp_path: Path) -> None:
    save(state(7.0), tmp_path / "new" / "checkpoint")
    found = loaded(tmp_path / "new" / "checkpoint")
    assert found["model"]["weight"].eq(7).all()
    assert found["model"]["tied"].eq(7).all()
    assert found["counts"] == [7.0, (1, "x")]
    assert found["scalar"] == 7


def test_values_that_hold_tensors_and_arrays_come_back(tmp_path: Path) -> None:
    planner = DefaultSavePlanner(flatten_state_dict=False)
    save({"value": {"tensor": torch.arange(3), "array": np.arange(4.0)}}, tmp_path, planner=planner)
    reading = DefaultLoadPlanner(flatten_state_dict=False)  # keeps values to itself
    load({"value": None}, tmp_path, planner=reading)
    assert reading.state_dict["value"]["tensor"].tolist() == [0, 1, 2]
    assert reading.state_dict["value"]["array"].tolist() == [0, 1, 2, 3]


def test_a_part_is_an_ordinary_hdf5_file(tmp_path: Path) -> None:
    save(state(7.0), tmp_path)
    (part,) = (tmp_path / "checkpoints").glob("*/rank-00000.h5")
    with h5py.File(part) as file:
        assert (file["state/whole/model.weight"][()] == 7).all()


class Secretive(DefaultSavePlanner):
    """A planner that shows values only as torch.save makes them."""

    lookup_object = None  # type: ignore[assignment]

    def resolve_data(self, write_item: Any) -> Any:

        return self.transform_object(write_item, find_state_dict_object(self.state_dict, write_item.index))


def test_a_planner_of_ones_own_is_asked_for_its_bytes_and_pickle_is_refused_by_name(tmp_path: Path) -> None:
    save({"plain": {"a": 1}}, tmp_path, planner=Secretive())
    target = {"plain": {"a": 0}}
    load(target, tmp_path)
    assert target == {"plain": {"a": 1}}
    with pytest.raises(CheckpointUnsupported, match="odd can't be kept without pickle"):
        save({"odd": Path()}, tmp_path, planner=Secretive())


def test_what_needs_pickle_is_refused_by_name_and_the_old_checkpoint_stays(tmp_path: Path) -> None:
    save(state(1.0), tmp_path)
    with pytest.raises(CheckpointUnsupported, match=r"values/odd is a pathlib\."):
        save({"odd": Path()}, tmp_path)
    assert loaded(tmp_path)["scalar"] == 1


def test_a_checkpoint_is_replaced_only_where_that_is_wanted(tmp_path: Path) -> None:
    save(state(1.0), tmp_path)
    with pytest.raises(ConfigurationError, match="holds a checkpoint already"):
        save(state(2.0), tmp_path, overwrite=False)
    assert loaded(tmp_path)["scalar"] == 1
    save(state(2.0), tmp_path)
    assert loaded(tmp_path)["scalar"] == 2
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_a_save_that_dies_at_any_line_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    save(state(1.0), tmp_path)
    line, value, found = 1, 2.0, {1.0}
    while die_at_line(line, lambda: save(state(value), tmp_path), within=WRITING):  # noqa: B023 called at once
        now = float(loaded(tmp_path)["scalar"])
        assert now in (max(found), value)
        found.add(now)
        line, value = line + 3, value + 1
    assert loaded(tmp_path)["scalar"] == value
    assert len(found) > 2
    assert line > 60


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        (lambda folder: (folder / "checkpoint.json").unlink(), CheckpointDamaged, "no save into it was finished"),
        (lambda folder: (folder / "checkpoint.json").write_text("{}"), CheckpointDamaged, "can't be read"),
        (lambda folder: next(folder.glob("checkpoints/*/*.h5")).unlink(), CheckpointDamaged, "the file is missing"),
        (lambda folder: folder.rename(folder.with_name("elsewhere")), CheckpointUnavailable, "is not there"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said(tmp_path: Path, spoil: Any, error: Any, says: str) -> None:
    folder = tmp_path / "checkpoint"
    save(state(1.0), folder)
    spoil(folder)
    with pytest.raises(error, match=says):
        loaded(folder)


def test_names_and_shapes_that_are_not_in_the_checkpoint_are_a_mismatch(tmp_path: Path) -> None:
    save(state(1.0), tmp_path)
    with pytest.raises(CheckpointMismatch, match="Missing key"):
        load({"other": torch.zeros(1)}, tmp_path)
    with pytest.raises(CheckpointMismatch, match="Size mismatch"):
        load({"scalar": torch.zeros(5)}, tmp_path)


def test_a_checkpoint_of_one_rank_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match="one for all ranks"):
        HDF5StorageWriter(tmp_path).set_up_storage_writer(True, rank=0, use_collectives=False)


def test_a_plan_that_is_used_again_never_writes_into_the_part_that_stands(tmp_path: Path) -> None:
    save(state(1.0), tmp_path)
    (part,) = (tmp_path / "checkpoints").glob("*/rank-00000.h5")
    before = part.read_bytes()
    writer, planner = HDF5StorageWriter(tmp_path), DefaultSavePlanner()
    planner.set_up_planner(state(2.0), is_coordinator=True)
    plan = planner.create_local_plan()
    again = SavePlan(plan.items, storage_data=Save(part.parent.name, 0))
    receipt = writer.write_data(again, planner).value()[0].storage_data
    assert receipt.file == f"checkpoints/{part.parent.name}.2/rank-00000.h5"
    assert part.read_bytes() == before


def test_our_errors_travel_between_ranks() -> None:
    error = pickle.loads(pickle.dumps(CheckpointDamaged(Path("a"), "it is short")))
    assert (error.path, error.why) == (Path("a"), "it is short")
