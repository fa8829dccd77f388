"""Questions that nobody waits for."""

from __future__ import annotations

import threading

from slurm_resilience.errors import SlurmUnavailable
from slurm_resilience.supervisor.question import Question


def test_an_answer_is_fetched_once() -> None:
    question: Question[int] = Question("test")
    question.ask(lambda: 7)
    question.settle(30)
    assert [question.answer(), question.answer()] == [7, None]


def test_a_question_is_under_way_until_its_answer_is_fetched() -> None:
    question: Question[int] = Question("test")
    seen = [question.under_way]
    question.ask(lambda: 7)
    question.settle(30)
    seen.append(question.under_way)
    question.answer()
    seen.append(question.under_way)
    assert seen == [False, True, False]


def test_a_question_that_is_under_way_is_not_asked_again() -> None:
    go = threading.Event()
    asked: list[int] = []
    question: Question[int] = Question("test")

    def ask() -> int:
        asked.append(1)
        go.wait(30)
        return len(asked)

    for _ in range(5):
        question.ask(ask)
        assert question.answer() is None
    go.set()
    assert question.answer(seconds=30) == 1
    assert asked == [1]


def test_no_answer_of_slurms_is_an_answer_of_its_own() -> None:
    question: Question[int] = Question("test")

    def ask() -> int:
        raise SlurmUnavailable("the controller is down")

    question.ask(ask)
    assert isinstance(question.answer(seconds=30), SlurmUnavailable)
    question.ask(lambda: 8)
    assert question.answer(seconds=30) == 8
