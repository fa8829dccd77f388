from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.result import Finding, Outcome, Problem, Result, broken, fail, ok, skipped, warn
from slurm_resilience.preflight.verdict import Exit, could_not_run, judge, unfit

NODE, USER = Problem.NODE, Problem.USER
NODES = ("n1", "n2", "n3", "n4")


@pytest.mark.parametrize(
    ("findings", "outcome", "code", "exclude"),
    [
        pytest.param({}, "ok", Exit.OK, (), id="nothing"),
        pytest.param({"n1": ok("fine"), "n2": skipped("no GPU")}, "ok", Exit.OK, (), id="ok and skipped"),
        pytest.param({"n1": ok("fine"), "n2": warn(NODE, "slow", "x")}, "warn", Exit.WARN, (), id="a warning"),
        pytest.param({"n1": broken("raised")}, "warn", Exit.WARN, (), id="a broken check alone"),
        pytest.param({"n3": fail(NODE, "bad", "x"), "n1": warn(NODE, "s", "x")}, "fail", Exit.FAIL, ("n3",), id="node"),
        pytest.param({"n3": fail(USER, "full", "x")}, "fail", Exit.FAIL, (), id="the user's problem"),
        pytest.param({None: fail(NODE, "between", "x")}, "fail", Exit.FAIL, (), id="no node is named"),
        pytest.param(
            {n: fail(NODE, "b", "x") for n in NODES[::-1]}, "fail", Exit.FAIL, NODES, id="all, in their order"
        ),
    ],
)
def test_the_worst_finding_decides_and_nodes_are_left_out_for_their_own_failures_only(
    findings: dict[str | None, Finding], outcome: str, code: Exit, exclude: tuple[str, ...]
) -> None:
    verdict = judge([Result("check", node, finding) for node, finding in findings.items()], NODES)
    assert (verdict.outcome, verdict.exit_code, verdict.exclude) == (outcome, code, exclude)


RESULTS = st.lists(
    st.builds(
        lambda node, outcome, problem: Result("check", node, Finding(outcome, "it", problem)),
        st.sampled_from([*NODES, None]),
        st.sampled_from(Outcome),
        st.sampled_from([*Problem, None]),
    ),
    max_size=8,
)


@given(RESULTS, st.permutations(range(8)))
def test_the_order_of_results_changes_neither_code_nor_nodes(results: list[Result], order: list[int]) -> None:
    shuffled = [results[i] for i in order if i < len(results)]
    one, other = judge(results, NODES), judge(shuffled, NODES)
    assert (one.exit_code, one.exclude) == (other.exit_code, other.exclude)


@given(RESULTS)
def test_a_node_is_left_out_exactly_where_there_is_a_failure_of_its_own(results: list[Result]) -> None:
    assert all(node in judge(results, NODES).exclude for node in unfit(results, NODES))
    assert bool(unfit(results, NODES)) <= (judge(results, NODES).exit_code is Exit.FAIL)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([Result("gpu", "n3", fail(NODE, "b", "x"))], ["n3 is not fit", "3 of 4 nodes"]),
        ([Result("storage", n, fail(USER, "b", "x")) for n in NODES], ["would fail on any node", "storage"]),
        ([Result("clock", None, fail(NODE, "b", "x"))], ["between the nodes", "clock"]),
        ([Result("swap", "n1", warn(NODE, "s", "x")), Result("gpu", "n1", broken("b"))], ["swap", "gpu could not"]),
    ],
)
def test_the_closing_sentence_names_what_it_is_about(results: list[Result], words: list[str]) -> None:
    sentence = judge(results, NODES).sentence
    assert all(word in sentence for word in words)


def test_what_could_not_run_is_broken_and_leaves_nobody_out() -> None:
    verdict = could_not_run("no node has answered")
    assert (verdict.outcome, int(verdict.exit_code), verdict.exclude) == ("broken", 3, ())
