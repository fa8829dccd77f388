"""The conductor with nodes that are functions: who is silent, who is lost, what is missing, and that it always ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from slurm_resilience.preflight.check import Check
from slurm_resilience.preflight.conductor import preflight
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.request import PreflightRequest, Registry
from slurm_resilience.preflight.result import Outcome, Problem, Result, fail, ok, warn
from slurm_resilience.preflight.round import Answer, Card, Round
from slurm_resilience.preflight.step import Heard
from tests.unit.preflight.fake_step import FakeClock, FakeNode, FakeStep

GPU, STORAGE = Check("gpu", "GPUs", "m:gpu"), Check("storage", "writing", "m:storage")


@dataclass
class FakeRound:
    name: str = "tcp"
    function: str = "m:tcp"
    timeout_s: float = 5.0
    seen: list[Mapping[int, Answer]] = field(default_factory=list)
    then: Round | None = None
    raises: Exception | None = None

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        return {task: {"peers": len(cards)} for task in cards}

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        self.seen.append(dict(answers))
        if self.raises is not None:
            raise self.raises
        return [Result(self.name, card.node, ok("reached")) for card in cards.values()]

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return self.then


def _nodes(count: int = 3, **of_n2: Any) -> list[FakeNode]:
    nodes = [FakeNode(task, f"n{task + 1}") for task in range(count)]
    for name, value in of_n2.items():
        setattr(nodes[1], name, value)
    return nodes


def _run(
    nodes: list[FakeNode],
    *,
    request: PreflightRequest | None = None,
    rounds: Sequence[Round] = (),
    across: Callable[[Sequence[Result]], Sequence[Result]] = lambda _: (),
    stopped: Callable[[], bool] = lambda: False,
    **step: Any,
) -> Report:
    clock = FakeClock()
    registry = Registry(checks=(GPU, STORAGE), rounds=lambda **_: rounds, across=across)
    fake = FakeStep(nodes, clock, **step)
    report = preflight(request or PreflightRequest(), fake, registry, clock=clock, stopped=stopped)
    assert fake.stopped
    assert all(smaller.over for smaller in fake.smaller)
    return report


def _bad(report: Report) -> dict[tuple[str, str | None], Outcome]:
    good = (Outcome.OK, Outcome.SKIPPED)
    return {(r.check, r.node): r.finding.outcome for r in report.results if r.finding.outcome not in good}


def _sentence(report: Report, check: str) -> str:
    (result,) = [r for r in report.results if r.check == check and r.finding.outcome is not Outcome.OK]
    return result.finding.sentence


def test_healthy_nodes_are_fit_and_every_check_and_round_has_said_so_on_each() -> None:
    round_ = FakeRound()
    report = _run(_nodes(), rounds=[round_])
    assert (report.outcome, report.exit_code, report.exclude) == ("ok", 0, ())
    assert {(r.check, r.node) for r in report.results} == {
        (check, node) for check in ("presence", "clock", "gpu", "storage", "tcp") for node in ("n1", "n2", "n3")
    }
    assert (report.job, report.restart, report.nodes) == ("12", 1, ("n1", "n2", "n3"))
    assert set(report.clock_offsets_s) == {"n1", "n2", "n3"}
    assert all(answer.values == {} for answer in round_.seen[0].values())


def test_a_failure_of_one_node_leaves_that_one_out_with_a_line_for_the_administrators() -> None:
    report = _run(_nodes(findings={"gpu": [fail(Problem.NODE, "GPU 2 is gone", "reset it"), ok("others fine")]}))
    assert (report.exit_code, report.exclude) == (2, ("n2",))
    assert report.drain == (
        'scontrol update NodeName=n2 State=DRAIN Reason="[node_problem] preflight: gpu: GPU 2 is gone"',
    )


def test_a_finding_about_another_node_counts_against_that_one() -> None:
    report = _run(_nodes(findings={"gpu": [fail(Problem.NODE, "n3 doesn't answer", "look", node="n3")]}))
    assert report.exclude == ("n3",)


def test_a_node_that_says_nothing_is_named_and_the_others_go_on_without_it() -> None:
    report = _run(_nodes(silent=True), can_shrink=False)
    assert _bad(report) == {("presence", "n2"): Outcome.FAIL}
    assert report.exclude == ("n2",)
    assert "n2 said nothing within 20 s" in _sentence(report, "presence")
    assert {r.node for r in report.results if r.check == "gpu"} == {"n1", "n3"}


def test_where_the_step_hands_nothing_out_before_all_are_there_it_is_started_again_without_the_silent_one() -> None:
    report = _run(_nodes(silent=True), needs_all=True)
    assert _bad(report) == {("presence", "n2"): Outcome.FAIL}
    assert {r.node for r in report.results if r.check == "gpu"} == {"n1", "n3"}
    assert report.took_s < 30


def test_where_it_cannot_be_started_again_the_silent_one_alone_is_to_blame() -> None:
    report = _run(_nodes(silent=True), needs_all=True, can_shrink=False)
    broken = Outcome.BROKEN
    assert _bad(report) == {("presence", n): broken for n in ("n1", "n3")} | {("presence", "n2"): Outcome.FAIL}
    assert report.exclude == ("n2",)


def test_a_node_that_does_not_hear_what_it_is_told_is_lost_from_the_beginning() -> None:
    report = _run(_nodes(dies_at="hello"), can_shrink=False)
    assert _bad(report) == {("presence", "n2"): Outcome.FAIL}
    assert {r.node for r in report.results if r.check == "gpu"} == {"n1", "n3"}


def test_when_none_hears_what_it_is_told_nobody_is_to_blame() -> None:
    report = _run([FakeNode(task, f"n{task}", dies_at="hello") for task in range(2)])
    assert (report.exit_code, report.exclude) == (3, ())


def test_a_node_on_which_srun_cannot_start_is_not_waited_for() -> None:
    said = Heard("srun: error: Task launch for StepId=12.0 failed on node n2: Communication connection failure")
    report = _run(_nodes(silent=True), needs_all=True, noise=[said])
    assert "n2 said nothing: srun could not start its task: Communication" in _sentence(report, "presence")
    assert report.took_s < 5


def test_when_nobody_answers_it_could_not_run_and_srun_says_why() -> None:
    nodes = [FakeNode(0, "n1", silent=True)]
    report = _run(nodes, noise=[Heard("srun: error: Unable to create step for job 12: Invalid job id")])
    assert (report.outcome, report.exit_code, report.exclude) == ("broken", 3, ())
    assert "Unable to create step for job 12: Invalid job id" in report.sentence


@pytest.mark.parametrize("order", ["ping", "checks", "round"])
def test_a_node_that_is_lost_on_the_way_is_named_with_where_and_costs_the_others_nothing(order: str) -> None:
    report = _run(_nodes(dies_at=order), rounds=[FakeRound()])
    assert _bad(report) == {("presence", "n2"): Outcome.FAIL}
    assert "n2 stopped answering during" in _sentence(report, "presence")
    assert {r.node for r in report.results if r.check == "tcp"} >= {"n1", "n3"}


def test_what_a_node_was_doing_when_it_fell_silent_is_told() -> None:
    report = _run(_nodes(mute_in="storage"))
    assert "during the checks (at work: storage, writing /scratch/x): not a word for 15 s" in _sentence(
        report, "presence"
    )


def test_srun_saying_that_a_process_was_killed_ends_the_waiting_for_it() -> None:
    nodes = _nodes(mute_in="storage")
    report = _run(nodes, noise=[Heard("srun: error: n2: task 1: Killed")])
    assert "its process ended: Killed" in _sentence(report, "presence")
    assert report.took_s < 10


def test_a_check_that_never_ends_is_named_at_the_time_limit_with_how_far_it_came() -> None:
    report = _run(_nodes(hangs_in="storage"), request=PreflightRequest(time_limit_s=30), rounds=[FakeRound()])
    assert _bad(report) == {("storage", "n2"): Outcome.BROKEN, ("tcp", None): Outcome.BROKEN}
    assert "the time limit of 30 s was over, while writing /scratch/x" in _sentence(report, "storage")
    assert "it had not begun" in _sentence(report, "tcp")
    assert report.took_s < 32
    assert report.exit_code == 1


def test_an_answer_that_does_not_come_is_an_answer_without_values() -> None:
    round_ = FakeRound()
    _run(_nodes(dies_at="round"), rounds=[round_])
    assert [answer.values for _, answer in sorted(round_.seen[0].items())] == [{}, None, {}]
    assert round_.seen[0][1].trouble


def test_what_follows_from_a_round_is_run_after_it() -> None:
    second = FakeRound("pairs")
    report = _run(_nodes(), rounds=[FakeRound(then=second)])
    assert len(second.seen) == 1
    assert {r.check for r in report.results} >= {"tcp", "pairs"}


def test_rounds_that_follow_each_other_for_ever_end() -> None:
    endless = FakeRound()
    endless.then = endless
    _run(_nodes(), rounds=[endless])
    assert 1 < len(endless.seen) <= 50


def test_a_round_that_fails_itself_is_broken_and_the_next_one_runs() -> None:
    report = _run(_nodes(), rounds=[FakeRound("names", raises=KeyError("addresses")), FakeRound()])
    assert _bad(report) == {("names", None): Outcome.BROKEN}
    assert "raised KeyError" in _sentence(report, "names")
    assert any(r.check == "tcp" for r in report.results)


def test_the_findings_of_all_nodes_are_held_against_each_other_at_the_end() -> None:
    seen: list[int] = []

    def across(results: Sequence[Result]) -> Sequence[Result]:
        seen.append(sum(result.check == "gpu" for result in results))
        return [Result("same-versions", "n2", warn(Problem.NODE, "another kernel", "x"))]

    assert _bad(_run(_nodes(), across=across)) == {("same-versions", "n2"): Outcome.WARN}
    assert seen == [3]


def test_a_clock_that_is_off_is_found_and_its_offset_is_stored() -> None:
    report = _run(_nodes(clock_ahead_s=90.0))
    assert _bad(report) == {("clock", "n2"): Outcome.FAIL}
    assert report.clock_offsets_s["n2"] == pytest.approx(90.0, abs=0.01)
    assert report.clock_offsets_s["n1"] == 0.0


def test_offsets_are_stored_where_their_judgement_is_not_wanted() -> None:
    report = _run(_nodes(clock_ahead_s=90.0), request=PreflightRequest(skip=("clock",)))
    assert report.exit_code == 0
    assert report.clock_offsets_s["n2"] == pytest.approx(90.0, abs=0.01)


def test_only_what_was_asked_for_is_run() -> None:
    report = _run(_nodes(), request=PreflightRequest(only=("gpu",)), rounds=[FakeRound()])
    assert {r.check for r in report.results} == {"gpu"}


def test_garbage_from_nodes_changes_nothing() -> None:
    nodes = _nodes()
    garbage = [
        Heard("Welcome to n1!", 0),
        Heard("%pf1 0 1 1/1 00000000 AAAA%", 0),
        *[Heard(line, 2) for line in FakeNode(2, "n3").say({"kind": "card", "card": {"task": "x"}})],
        *[Heard(line, 9) for line in FakeNode(9, "n9").say({"kind": "result", "check": "gpu", "finding": {}})],
        *[Heard(line, 9) for line in FakeNode(9, "n9").say({"no": "kind"})],
    ]
    nodes[2]._number = 50  # its own messages come after the garbage in its name
    assert _run(nodes, noise=garbage).exit_code == 0


def test_a_finding_that_is_none_is_broken() -> None:
    node = FakeNode(0, "n1")
    node._number = 1000
    wrong = FakeNode(0, "n1").say({"kind": "result", "check": "gpu", "finding": {"outcome": "splendid"}})
    node.first_words = lambda: [*FakeNode.first_words(node)]  # type: ignore[method-assign]
    check = node._check

    def checked(names: list[str]) -> list[str]:
        return [*wrong, *check(names)]

    node._check = checked  # type: ignore[method-assign]
    assert _bad(_run([node])) == {("gpu", "n1"): Outcome.BROKEN}


@pytest.mark.parametrize("after", [0, 1, 5, 20, 40])
def test_when_it_is_told_to_stop_it_ends_the_step_and_says_interrupted(after: int) -> None:
    asked = iter(range(10**6))
    report = _run(_nodes(hangs_in="storage"), rounds=[FakeRound()], stopped=lambda: next(asked) >= after)
    assert (report.outcome, report.exit_code, report.sentence) == ("broken", 3, "interrupted")


def test_a_step_that_waits_in_the_queue_is_waited_for_and_tells_its_nodes_itself() -> None:
    nodes = _nodes(2)
    step = FakeStep(nodes, FakeClock(), queues=True, named=False)
    start, came = step.start, []

    def late() -> None:
        came.append(step.clock.monotonic + 3600)

    receive = step.receive

    def waiting(timeout_s: float) -> list[Heard]:
        if came and step.clock.monotonic >= came[0]:
            came.clear()
            start()
            step.send([])
            for node in nodes:
                step._lines += [Heard(line, node.task) for line in node.say({"kind": "ready"})]
        return receive(timeout_s)

    step.start, step.receive = late, waiting  # type: ignore[method-assign]
    report = preflight(PreflightRequest(), step, Registry(checks=(GPU,)), clock=step.clock)
    assert report.outcome == "ok"
    assert report.nodes == ("n1", "n2")
