from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.clocks import Offset, Ping, judge, offset_by, relative_to_first
from slurm_resilience.preflight.result import Outcome, Problem


@given(
    ahead_s=st.floats(-1e4, 1e4),
    ways=st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=9),
)
def test_the_true_offset_is_never_further_off_than_the_error_that_is_told(
    ahead_s: float, ways: list[tuple[float, float]]
) -> None:
    pings = [Ping(1000.0 + i, 1000.0 + i + there + ahead_s, there + back) for i, (there, back) in enumerate(ways)]
    offset = offset_by(pings)
    assert offset is not None
    assert abs(offset.seconds - ahead_s) <= offset.error_s + 1e-6
    assert offset.error_s == min(ping.round_trip_s for ping in pings) / 2


def test_without_an_answer_there_is_no_offset() -> None:
    assert offset_by([]) is None


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_how_wrong_our_own_clock_is_changes_nothing_between_the_nodes(ours_s: float, n2_s: float) -> None:
    offsets = {"n1": Offset(ours_s, 0.1), "n2": Offset(ours_s + n2_s, 0.1)}
    relative = relative_to_first(["n1", "n2"], offsets)
    assert relative["n1"] == Offset(0.0, 0.0)
    assert relative["n2"].seconds == pytest.approx(n2_s, abs=1e-9)
    assert relative["n2"].error_s == pytest.approx(0.2)


def test_the_first_node_is_the_first_one_that_answered() -> None:
    assert relative_to_first(["n1", "n2"], {"n2": Offset(5.0, 0.1)}) == {"n2": Offset(0.0, 0.0)}


@pytest.mark.parametrize(
    ("seconds", "error_s", "bad", "outcome"),
    [
        pytest.param((0, 0, 0, 0), 0.001, {}, None, id="all agree"),
        pytest.param((0, 0, 0.4, 0), 0.001, {}, None, id="less than half a second"),
        pytest.param((0, 0, 0.6, 0), 0.001, {"n3"}, Outcome.WARN, id="more"),
        pytest.param((0, 0, -61, 0), 0.001, {"n3"}, Outcome.FAIL, id="a minute behind"),
        pytest.param((61, 0, 0, 0), 0.001, {"n1"}, Outcome.FAIL, id="the first one is off, not the others"),
        pytest.param((0, 0, 0.9, 0), 0.5, {}, None, id="not more than the error"),
        pytest.param((0, 0, 60.5, 0), 0.3, {"n3"}, Outcome.WARN, id="a minute, but not surely"),
        pytest.param((0, 0, 5, 5), 0.001, {None}, Outcome.WARN, id="two against two"),
    ],
)
def test_the_odd_one_out_is_named(
    seconds: tuple[float, ...], error_s: float, bad: set[str | None], outcome: Outcome | None
) -> None:
    offsets = {f"n{i}": Offset(each + 7.0, error_s) for i, each in enumerate(seconds, 1)}  # 7: our own clock's fault
    results = judge(offsets, ours_counts=False)
    found = {result.node for result in results if result.finding.outcome is not Outcome.OK}
    assert found == set(bad)
    assert {result.finding.outcome for result in results if result.finding.problem} == ({outcome} if outcome else set())
    assert all(result.finding.problem in (None, Problem.NODE) for result in results)


def test_of_two_nodes_neither_is_blamed_unless_a_third_clock_agrees_with_one() -> None:
    offsets = {"n1": Offset(0.0, 0.001), "n2": Offset(3.0, 0.001)}
    (undecided,) = judge(offsets, ours_counts=False)
    assert undecided.node is None
    assert "n2 is 3 s ahead of n1's" in undecided.finding.sentence
    blamed = [result.node for result in judge(offsets, ours_counts=True) if result.finding.outcome is Outcome.WARN]
    assert blamed == ["n2"]


def test_one_node_alone_has_nobody_to_be_compared_with() -> None:
    assert judge({"n1": Offset(100.0, 0.0)}, ours_counts=True) == []
