from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.checkpoint import load, wanted, write
from benchmarks.checkpoint.goals import Goal, Side, judged
from benchmarks.checkpoint.rounds import Part
from benchmarks.checkpoint.stall import COPIES, MODES, SAVERS
from benchmarks.checkpoint.tables import tables
from benchmarks.text_table import markdown_table, plain_table

OURS = Side("write", "ours", "gb_per_s")
RAW = Side("write", "raw", "gb_per_s")


def part(**values: list[float]) -> Part:
    return Part({method: [{"gb_per_s": value} for value in measured] for method, measured in values.items()})


@pytest.mark.parametrize(
    ("bound", "limit", "met"),
    [("at least", 0.5, True), ("at least", 0.6, False), ("at most", 0.5, True), ("at most", 0.4, False)],
)
def test_a_goal_is_met_at_its_limit_and_not_beyond_it(bound, limit, met) -> None:
    goal = Goal("", OURS, RAW, bound, limit)
    assert judged(goal, {"write": part(ours=[1, 2], raw=[2, 4])}).met is met


def test_a_ratio_is_taken_within_rounds_and_not_between_medians() -> None:
    found = judged(Goal("", OURS, RAW, "at least", 1), {"write": part(ours=[1, 20, 3], raw=[1, 10, 30])}).found
    assert found is not None
    assert (found.median, found.lowest, found.highest) == (1, 0.1, 2)


def test_a_goal_without_another_side_is_about_the_value_itself() -> None:
    assert judged(Goal("", OURS, None, "at most", 3), {"write": part(ours=[2, 3, 9])}).met is True


@pytest.mark.parametrize("parts", [{}, {"write": part(ours=[1])}, {"write": part(raw=[1])}])
def test_a_goal_of_which_a_side_is_missing_is_neither_met_nor_missed(parts) -> None:
    assert judged(Goal("", OURS, RAW, "at least", 1), parts).met is None


def test_every_goal_speaks_of_what_is_measured() -> None:
    stalls = {(f"stall {mode}", name) for mode in MODES for name in [*SAVERS, *COPIES]}
    writes = {
        (part, name)
        for part in ("write", "stop")
        for name in (write.RAW, write.ARENA, write.SYNCHRONOUS, write.SAFETENSORS, write.TORCH, write.DCP_TWO)
    }
    loads = {(f"load {how}", name) for how in ("cold", "warm") for name in (load.OURS, load.TORCH, load.SAFETENSORS)}
    known = stalls | writes | loads | {("memory", name) for name in SAVERS}
    for goal in wanted.goals():
        assert {(side.part, side.method) for side in (goal.of, goal.than) if side is not None} <= known


@pytest.mark.parametrize("table", [plain_table, markdown_table])
def test_what_could_not_be_measured_is_told_with_its_reason(table) -> None:
    text = "\n".join(tables({"stop": Part({"raw, O_DIRECT": [{"took_s": 1.0}]}, {"other": "not installed"})}, table))
    assert "other: not installed" in text
    assert "not measured" in text  # the goal that needed it


def test_one_figure_is_drawn_of_equal_measurements(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.checkpoint.plot import draw

    stall = Part({"ours": [{"stall_s": 0.1}, {"stall_s": 0.2}], "DCP": [{"stall_s": 1.0}, {"stall_s": 1.5}]})
    for name in ("a.svg", "b.svg"):
        draw({"write": part(ours=[3, 4], other=[1, 2]), "stall spare": stall}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
