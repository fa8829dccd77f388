from __future__ import annotations

from collections.abc import Sequence

from slurm_resilience.preflight.result import Outcome, Problem, Result, broken, fail, ok, skipped, warn
from slurm_resilience.preflight.summary import Row, remedies, rows, slowest

NODES = ("n1", "n2", "n3")


def _rows(*results: Result) -> list[Row]:
    return rows(results, NODES, {"storage": "writing"}, _fold)


def _fold(nodes: Sequence[str]) -> str:
    return "+".join(nodes)


def test_nodes_that_are_alike_have_one_row() -> None:
    (row,) = _rows(*(Result("storage", node, ok("it can be written")) for node in NODES))
    assert row == Row("storage", Outcome.OK, "3 nodes", "it can be written")


def test_good_findings_that_differ_are_told_by_what_was_looked_at() -> None:
    (row,) = _rows(*(Result("storage", node, ok(f"{number} GB free")) for number, node in enumerate(NODES)))
    assert row.what == "writing"


def test_failures_come_first_each_with_its_nodes_and_whose_problem_it_is() -> None:
    table = _rows(
        Result("gpu", "n1", ok("fine")),
        Result("gpu", "n2", fail(Problem.NODE, "GPU 2 is gone", "x")),
        Result("swap", "n1", warn(Problem.NODE, "swapping", "x")),
        Result("swap", "n3", warn(Problem.NODE, "swapping", "x")),
        Result("storage", "n1", broken("raised ValueError")),
    )
    assert [(row.check, row.word, row.nodes, row.what) for row in table] == [
        ("gpu", "FAIL", "n2", "GPU 2 is gone [node problem]"),
        ("storage", "BROKEN", "n1", "raised ValueError"),
        ("swap", "WARN", "n1+n3", "swapping [node problem]"),
        ("gpu", "ok", "n1", "fine"),
    ]


def test_a_part_that_was_skipped_is_not_shown_beside_what_was_found() -> None:
    assert [
        row.word for row in _rows(Result("storage", "n1", ok("a")), Result("storage", "n1", skipped("no quota")))
    ] == ["ok"]
    assert [row.word for row in _rows(Result("gpu", "n1", skipped("no GPU")))] == ["skipped"]


def test_what_is_about_the_job_as_a_whole_names_no_node() -> None:
    assert _rows(Result("same-versions", None, ok("alike")))[0].nodes is None


def test_each_remedy_is_said_once_with_all_that_it_is_for() -> None:
    results = [
        Result("swap", "n1", warn(Problem.NODE, "swapping 1", "end what swaps")),
        Result("swap", "n3", warn(Problem.NODE, "swapping 2", "end what swaps")),
        Result("gpu", "n2", fail(Problem.NODE, "gone", "reset it")),
        Result("storage", "n2", ok("fine")),
    ]
    assert remedies(results, NODES, _fold) == ["gpu on n2: reset it", "swap on n1+n3: end what swaps"]


def test_the_slowest_check_is_found() -> None:
    results = [Result("a", "n1", ok("x"), 1.0), Result("b", "n1", ok("x"), 3.0), Result("c", "n1", ok("x"))]
    found = slowest(results)
    assert found is not None
    assert found.check == "b"
    assert slowest([]) is None
