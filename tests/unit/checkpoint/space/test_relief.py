from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.space.leftovers import Found, leftovers
from slurm_resilience.checkpoint.space.relief import Forget, ReleaseBallast, Sized, Sweep, plan_relief
from slurm_resilience.checkpoint.space.relieve import NotRelieved, Relieved, relieve
from slurm_resilience.errors import CheckpointUnavailable


@pytest.mark.parametrize(
    ("checkpoint", "is_left"),
    [
        pytest.param("step-0000000010.a1", True, id="an attempt that is over"),
        pytest.param("step-0000000010.a2.final", True, id="its last step"),
        pytest.param("step-0000000010.a3", False, id="a save in progress"),
        pytest.param("step-0000000010.a4", False, id="somebody newer: we are the zombie"),
        pytest.param("step-0000000020.a1", False, id="named by the manifest"),
        pytest.param("my-notes", False, id="not ours"),
        pytest.param("step-0000000010.a1.backup", False, id="a person's copy"),
    ],
)
def test_only_what_no_manifest_line_can_name_is_left_behind(checkpoint: str, is_left: bool) -> None:
    found = [Found(checkpoint, 7)]
    assert leftovers(found, named={"step-0000000020.a1"}, attempt=3) == (found if is_left else [])


LIVE = [Sized(name, 10) for name in ("a", "b", "c", "d")]


def test_what_nobody_misses_goes_first_and_no_more_than_is_missing() -> None:
    relief = plan_relief(missing_bytes=15, left_behind=[Found("old", 8)], live=LIVE, must_stay={"a"}, ballast_bytes=100)
    assert [type(step) for step in relief.steps] == [Sweep, Forget, ReleaseBallast]
    assert [step.checkpoint for step in relief.steps if isinstance(step, (Sweep, Forget))] == ["old", "b"]


def test_where_nobody_knows_what_is_missing_all_that_may_go_is_offered() -> None:
    relief = plan_relief(missing_bytes=None, left_behind=[], live=LIVE, must_stay={"b"}, ballast_bytes=0)
    assert [step.checkpoint for step in relief.steps if isinstance(step, Forget)] == ["a", "c"]


@given(
    st.none() | st.integers(0, 200),
    st.sets(st.sampled_from("abcd")),
    st.integers(0, 50),
    st.lists(st.integers(0, 20), max_size=3),
)
def test_what_must_stay_and_the_newest_are_never_given_up(
    missing: int | None, must_stay: set[str], ballast: int, left: list[int]
) -> None:
    behind = [Found(f"old{index}", size) for index, size in enumerate(left)]
    relief = plan_relief(
        missing_bytes=missing, left_behind=behind, live=LIVE, must_stay=must_stay, ballast_bytes=ballast
    )
    forgotten = {step.checkpoint for step in relief.steps if isinstance(step, Forget)}
    assert not forgotten & (must_stay | {"d"})
    assert any(isinstance(step, ReleaseBallast) for step in relief.steps) == (ballast > 0)


class Recorder:
    def __init__(self, refusing: str = "") -> None:
        self.done: list[str] = []
        self.refusing = refusing

    def sweep(self, checkpoint: str) -> None:
        self._do(f"sweep {checkpoint}")

    def forget(self, checkpoint: str, why: str) -> None:
        assert why
        self._do(f"forget {checkpoint}")

    def release_ballast(self) -> None:
        self._do("ballast")

    def _do(self, what: str) -> None:
        if what == self.refusing:
            raise CheckpointUnavailable("stale")
        self.done.append(what)


RELIEF = plan_relief(missing_bytes=None, left_behind=[Found("old", 8)], live=LIVE, must_stay={"c"}, ballast_bytes=5)


def test_steps_are_taken_until_it_is_enough_and_no_further() -> None:
    hands, said = Recorder(), list[str]()
    outcome = relieve(RELIEF, hands, enough=lambda: len(hands.done) == 2, say=said.append)
    assert hands.done == ["sweep old", "forget a"]
    assert outcome == Relieved(RELIEF.steps[:2])
    assert said[1].startswith("forgetting a: ")


def test_a_step_that_is_refused_costs_that_step_only() -> None:
    hands, said = Recorder("forget a"), list[str]()
    outcome = relieve(RELIEF, hands, enough=lambda: False, say=said.append)
    assert hands.done == ["sweep old", "forget b", "ballast"]
    assert isinstance(outcome, NotRelieved)
    assert "this save is given up" in outcome.why
    assert "forgetting a failed: stale" in said


def test_where_nobody_can_say_whether_it_is_enough_one_step_has_to_do() -> None:
    hands = Recorder()
    assert isinstance(relieve(RELIEF, hands, enough=lambda: None, say=lambda _: None), Relieved)
    assert hands.done == ["sweep old"]


def test_with_nothing_to_give_up_the_save_is_given_up_with_a_reason() -> None:
    nothing = plan_relief(missing_bytes=9, left_behind=[], live=LIVE[:1], must_stay={"a"}, ballast_bytes=0)
    assert relieve(nothing, Recorder(), enough=lambda: False, say=lambda _: None) == NotRelieved(
        (),
        "the disk is full, 9 bytes are missing, and nothing is left that may go "
        "(1 checkpoints are there, 1 of them have to stay): this save is given up",
    )
