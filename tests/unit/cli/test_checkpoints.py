from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.checkpoints import checkpoints
from slurm_resilience.cli.checkpoints.compare import SHOWN
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    CheckpointCommitted,
    CheckpointForgotten,
    CheckpointPinned,
    CheckpointPublished,
    CheckpointStaged,
    CheckpointVerified,
    Part,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.unit.cli.told_runs import saved, started, tell

needs_the_format = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "h5py", "numpy", "xxhash")),
    reason="checkpoints are written with torch, h5py, numpy and xxhash",
)


def call(*arguments: str | Path, code: int = 0, answer: str | None = None) -> str:
    result = CliRunner().invoke(checkpoints, [str(each) for each in arguments], input=answer)
    assert result.exit_code == code, result.output
    return result.output


def save(
    run: RunDirectory, step: int, *, attempt: int = 1, ranks: int = 2, metric: float | None = None, **changes: Any
) -> CheckpointCommitted:
    """A real checkpoint of two small tensors a rank, and its line."""
    import torch

    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

    name = checkpoint_id(step, attempt)
    parts = []
    for rank in range(ranks):
        model = {"weight": torch.arange(6.0).reshape(2, 3) + rank, "bias": torch.zeros(3)}
        state = {"model": model, "step": step} | changes
        receipt = Hdf5Store(run.path).write_part(name, rank=rank, state=state, attributes={"step": step})
        parts.append(Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum))
    record = CheckpointCommitted(name, step, attempt, SaveReason.PERIODIC, ranks, tuple(parts), 0.1, metric)
    Journal(run).append(record)
    return record


def damage(run: RunDirectory, record: CheckpointCommitted, *, rank: int = 0) -> None:
    path = run.path / record.parts[rank].file
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)


def states(run: RunDirectory) -> dict[int, CheckpointState]:
    return {each.committed.step: each.state for each in Chain.of(Journal(run).read()).checkpoints}


def test_the_list_shows_what_the_manifest_names_in_order(tmp_path: Path) -> None:
    forgotten = CheckpointForgotten(checkpoint_id(10, 1), "retention")
    run = tell(tmp_path / "run", started(1), saved(10, 1), saved(20, 1), forgotten)
    rows = [line.split() for line in call("list", run.path).splitlines()]
    assert rows[0] == ["checkpoint", "step", "saved", "reason", "ranks", "size", "took", "state"]
    assert [row[0] for row in rows[1:]] == ["step-0000000010.a1", "step-0000000020.a1"]
    assert rows[1][-2:] == ["forgotten:", "retention"]
    assert rows[2][-5:] == ["2.86", "MiB", "2.5", "s", "live"]
    value = json.loads(call("list", run.path, "--json"))
    assert [each["state"] for each in value] == ["forgotten", "live"]
    assert value[1]["bytes"] == 3_000_000
    assert value[1]["parts"][1]["file"] == "checkpoints/step-0000000020.a1/rank-00001.h5"


def test_the_list_says_which_are_pinned_verified_published_and_how_good(tmp_path: Path) -> None:
    name = checkpoint_id(20, 1)
    run = tell(
        tmp_path / "run",
        *(started(1), saved(10, 1), replace(saved(20, 1), metric=0.25, stall_s=0.1)),
        *(CheckpointPinned(name, "for the paper"), CheckpointVerified(name, 1, "by hand")),
        *(CheckpointPublished(name, "s3://b/p"), CheckpointStaged(checkpoint_id(30, 1), 30, 1, 2, "local")),
    )
    text = call("list", run.path)
    header, first, second, staged = text.splitlines()
    assert header.split()[-3:] == ["metric", "state", "marks"]
    assert first.split()[-3:] == ["-", "live", "-"]
    assert second.endswith("pinned (for the paper), verified, published (s3://b/p)")
    assert staged == "only staged on local, gone with its nodes: step-0000000030.a1 (step 30)"
    value = json.loads(call("list", run.path, "--json"))[1]
    told = {name: value[name] for name in ("metric", "stall_s", "pinned", "verified", "published")}
    assert told == {
        "metric": 0.25,
        "stall_s": 0.1,
        "pinned": "for the paper",
        "verified": True,
        "published": ["s3://b/p"],
    }


def test_a_run_without_checkpoints_says_so(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    assert "has no checkpoint yet" in call("list", run.path)
    assert json.loads(call("list", run.path, "--json")) == []
    assert "no live checkpoint to verify" in call("verify", run.path)


def test_where_there_is_no_run_every_command_says_so_and_leaves_with_78(tmp_path: Path) -> None:
    for command, *rest in (
        ("list",),
        ("show", "newest"),
        ("verify",),
        ("compare", tmp_path),
        ("diff", "newest", "newest"),
        ("prune", "--keep-last=1", "--yes"),
        ("pin", "newest"),
        ("unpin", "newest"),
        ("export", "newest", "--to", tmp_path / "x"),
    ):
        assert "there is no run in" in call(command, tmp_path, *rest, code=78)


@needs_the_format
def test_whole_checkpoints_are_found_whole_the_newest_first(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    save(run, 10)
    save(run, 20)
    value = json.loads(call("verify", run.path, "--json"))
    assert [(each["step"], each["verdict"], each["why"]) for each in value] == [
        (20, "whole", None),
        (10, "whole", None),
    ]
    text = call("verify", run.path, "step-0000000010.a1", "--progress")
    assert "step-0000000010.a1" in text
    assert "step-0000000020.a1" not in text


@needs_the_format
def test_damage_is_found_and_marked_only_when_asked(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    save(run, 10)
    damage(run, save(run, 20))
    text = call("verify", run.path, code=1)
    assert "damaged: " in text
    assert "with --mark the manifest learns it" in text
    assert states(run) == {10: CheckpointState.LIVE, 20: CheckpointState.LIVE}
    assert "knows now that step-0000000020.a1 is damaged" in call("verify", run.path, "--mark", code=1)
    assert states(run) == {10: CheckpointState.LIVE, 20: CheckpointState.DAMAGED}
    call("verify", run.path)  # what is left is whole


@needs_the_format
def test_marking_twice_writes_once(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    record = save(run, 20)
    damage(run, record, rank=1)
    call("verify", run.path, "--mark", code=1)
    before = run.journal.read_bytes()
    call("verify", run.path, record.checkpoint, "--mark", code=1)
    assert run.journal.read_bytes() == before


@needs_the_format
def test_what_was_found_whole_is_recorded_only_when_asked_and_never_what_was_not(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    save(run, 10)
    damage(run, save(run, 20))
    call("verify", run.path, code=1)
    assert [each.verified for each in Chain.of(Journal(run).read()).checkpoints] == [False, False]
    assert "knows now that step-0000000010.a1 is whole" in call("verify", run.path, "--record", code=1)
    assert [each.verified for each in Chain.of(Journal(run).read()).checkpoints] == [True, False]


@needs_the_format
def test_a_missing_part_is_damage_and_a_part_that_may_not_be_read_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.errors import CheckpointUnavailable

    run = tell(tmp_path / "run", started(1))
    record = save(run, 20)
    (run.path / record.parts[1].file).unlink()
    assert "damaged: " in call("verify", run.path, code=1)

    def stale(*_: object, **__: object) -> None:
        raise CheckpointUnavailable("rank-00000.h5: Stale file handle")

    monkeypatch.setattr(Hdf5Store, "verify_parts", stale)
    assert "unreadable: rank-00000.h5: Stale file handle" in call("verify", run.path, "--mark", code=1)
    assert states(run) == {20: CheckpointState.LIVE}


@needs_the_format
def test_what_a_running_run_lets_go_while_it_is_verified_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

    run = tell(tmp_path / "run", started(1))
    old = save(run, 10)
    save(run, 20)
    verify = Hdf5Store.verify_parts

    def slowly(store: Hdf5Store, receipts: Any, **options: Any) -> None:
        verify(store, receipts, **options)
        if states(run)[10] is CheckpointState.LIVE:
            Journal(run).append(CheckpointForgotten(old.checkpoint, "only the last one is kept"))
            store.delete(old.checkpoint)

    monkeypatch.setattr(Hdf5Store, "verify_parts", slowly)
    value = json.loads(call("verify", run.path, "--json", "--mark"))
    assert [(each["step"], each["verdict"]) for each in value] == [(20, "whole"), (10, "forgotten")]


def test_a_checkpoint_that_is_forgotten_or_never_was_cannot_be_verified(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), saved(10, 1), CheckpointForgotten(checkpoint_id(10, 1), "retention"))
    assert "is forgotten: its files are gone" in call("verify", run.path, "step-0000000010.a1", code=78)
    assert "has no checkpoint step-7" in call("verify", run.path, "step-7", code=78)


def test_a_missing_package_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'h5py'", name="h5py")

    monkeypatch.setattr(Hdf5Store, "verify_parts", missing)
    run = tell(tmp_path / "run", started(1), saved(10, 1))
    assert "can't be read without h5py" in call("verify", run.path, code=78)


@needs_the_format
def test_two_runs_that_end_alike_are_the_same_whatever_their_ways(tmp_path: Path) -> None:
    run_a, run_b = tell(tmp_path / "a", started(1)), tell(tmp_path / "b", started(1), started(2))
    save(run_a, 20)
    save(run_b, 10)
    save(run_b, 20, attempt=2)
    text = call("compare", run_a.path, run_b.path)
    assert text == "the same, bit for bit: step-0000000020.a1 and step-0000000020.a2, 2 ranks\n"
    assert json.loads(call("compare", run_a.path, run_b.path, "--json"))["same"] is True


@needs_the_format
def test_one_bit_makes_two_runs_differ_and_a_prefix_says_where_to_look(tmp_path: Path) -> None:
    run_a, run_b = tell(tmp_path / "a", started(1)), tell(tmp_path / "b", started(1))
    save(run_a, 20)
    save(run_b, 20, clock=-0.0)
    text = call("compare", run_a.path, run_b.path, code=1)
    assert "differ in 2 places" in text
    assert "rank 0: clock: only there" in text
    assert "below model" in call("compare", run_a.path, run_b.path, "--prefix", "model")
    value = json.loads(call("compare", run_a.path, run_b.path, "--json", code=1))
    assert value["same"] is False
    assert [each["rank"] for each in value["differences"]] == [0, 1]


@needs_the_format
def test_of_many_differences_the_first_ones_are_shown(tmp_path: Path) -> None:
    run_a, run_b = tell(tmp_path / "a", started(1)), tell(tmp_path / "b", started(1))
    save(run_a, 20, ranks=1, many={f"{index:02}": index for index in range(SHOWN + 5)})
    save(run_b, 20, ranks=1, many={f"{index:02}": index + 1 for index in range(SHOWN + 5)})
    text = call("compare", run_a.path, run_b.path, code=1)
    assert len(text.splitlines()) == SHOWN + 2
    assert "and 5 more" in text


@needs_the_format
def test_runs_of_different_size_differ(tmp_path: Path) -> None:
    run_a, run_b = tell(tmp_path / "a", started(1)), tell(tmp_path / "b", started(1))
    save(run_a, 20, ranks=1)
    save(run_b, 20, ranks=2)
    assert "1 rank here, 2 there" in call("compare", run_a.path, run_b.path, code=1)


def test_a_run_without_a_loadable_checkpoint_cannot_be_compared(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    assert "has no checkpoint that can be loaded" in call("compare", run.path, run.path, code=78)


@needs_the_format
def test_show_names_parts_attributes_and_tensors_from_their_heads_alone(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    record = save(run, 20)
    damage(run, record)  # in a tensor: heads are whole
    value = json.loads(call("show", run.path, "newest", "--json"))
    assert (value["checkpoint"], value["step"], value["verified"]) == (record.checkpoint, 20, False)
    assert [part["attributes"] for part in value["parts"]] == [{"step": 20}] * 2
    weight = next(each for each in value["parts"][0]["tensors"] if each["name"] == "model/weight")
    assert (weight["dtype"], weight["shape"], weight["bytes"], weight["also"]) == ("float32", [2, 3], 24, [])
    assert weight["checksum"].startswith("xxh3-128:")
    text = call("show", run.path, record.checkpoint)
    assert "model/weight  float32  2×3" in text
    assert "rank 1: checkpoints/step-0000000020.a1/rank-00001.h5" in text


@needs_the_format
def test_show_can_be_narrowed_to_a_rank_to_names_and_to_no_tensors(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    save(run, 20)
    value = json.loads(call("show", run.path, "newest", "--json", "--rank=1", "--filter=*/bias"))
    assert [(part["rank"], [each["name"] for each in part["tensors"]]) for part in value["parts"]] == [
        (1, ["model/bias"])
    ]
    assert "weight" not in call("show", run.path, "newest", "--no-tensors")
    assert "has no part of rank 7: it has those of 0, 1" in call("show", run.path, "newest", "--rank=7", code=78)


@needs_the_format
def test_diff_says_how_far_two_checkpoints_are_apart(tmp_path: Path) -> None:
    import torch

    run = tell(tmp_path / "run", started(1))
    save(run, 10, ranks=1, extra=torch.tensor([3.0, 4.0]))
    save(run, 20, ranks=1, extra=torch.tensor([3.0, 1.0]))
    value = json.loads(call("diff", run.path, "step-0000000010.a1", "newest", "--json", "--prefix=extra", code=1))
    assert value["differences"] == [
        {
            "rank": 0,
            "name": "extra",
            "why": value["differences"][0]["why"],
            "distance": {
                "norm_a": 5.0,
                "norm_b": pytest.approx(10**0.5),
                "norm_difference": 3.0,
                "most": 3.0,
                "differing": 1,
                "count": 2,
            },
        }
    ]
    text = call("diff", run.path, "step-0000000010.a1", "newest", code=1)
    assert "differ in 2 places" in text  # the step too
    assert "1 of 2" in text
    assert "the same, bit for bit" in call("diff", run.path, "newest", "newest", "--progress")


@needs_the_format
def test_diff_looks_for_the_second_one_in_another_run_when_asked(tmp_path: Path) -> None:
    run, other = tell(tmp_path / "a", started(1)), tell(tmp_path / "b", started(1))
    save(run, 20, ranks=2)
    save(other, 20, ranks=1)
    text = call("diff", run.path, "newest", "newest", "--other-run", other.path, code=1)
    assert "2 ranks here, 1 there" in text
    assert "has no checkpoint step-3" in call("diff", run.path, "newest", "step-3", code=78)


def test_a_pinned_checkpoint_says_why_until_it_is_unpinned(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), saved(10, 1))
    assert call("pin", run.path, "newest", "--why", "for the paper") == (
        "step-0000000010.a1 is pinned: for the paper\n"
    )
    assert "pinned (for the paper)" in call("list", run.path)
    assert json.loads(call("unpin", run.path, "step-0000000010.a1", "--json")) == {
        "checkpoint": "step-0000000010.a1",
        "pinned": None,
    }
    before = run.journal.read_bytes()
    assert "was not pinned" in call("unpin", run.path, "newest")
    assert run.journal.read_bytes() == before


def test_what_is_forgotten_can_not_be_pinned(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), saved(10, 1), CheckpointForgotten(checkpoint_id(10, 1), "retention"))
    assert "is forgotten: its files are gone" in call("pin", run.path, "step-0000000010.a1", code=78)
    assert "no checkpoint that can be loaded" in call("pin", run.path, "newest", code=78)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["step-0000000020.a1", "step-0000000010.a1", "newest"]),
        ("step-000000001", ["step-0000000010.a1"]),
        ("ne", ["newest"]),
        ("x", []),
    ],
)
def test_the_shell_completes_the_names_of_checkpoints(tmp_path: Path, typed: str, offered: list[str]) -> None:
    from slurm_resilience.cli.main import cli

    run = tell(tmp_path / "run", started(1), saved(10, 1), saved(20, 1))
    for command in ("show", "verify", "pin", "export"):
        environment = {
            "_SLURM_RESILIENCE_COMPLETE": "bash_complete",
            "COMP_WORDS": f"slurm-resilience checkpoints {command} {run.path} {typed}",
            "COMP_CWORD": "4",
        }
        done = CliRunner().invoke(cli, [], prog_name="slurm-resilience", env=environment)
        assert done.output.split() == [f"plain,{name}" for name in offered], command


def test_the_shell_completes_nothing_where_there_is_no_run(tmp_path: Path) -> None:
    from slurm_resilience.cli.main import cli

    environment = {
        "_SLURM_RESILIENCE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"slurm-resilience checkpoints show {tmp_path} ",
        "COMP_CWORD": "4",
    }
    assert CliRunner().invoke(cli, [], prog_name="slurm-resilience", env=environment).output.split() == []
