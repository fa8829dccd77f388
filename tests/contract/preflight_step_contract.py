"""What every Step of preflight must do, whatever stands between us and its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from slurm_resilience.preflight.step import Heard, Step

PATIENCE_S = 100.0
"""For what comes at once, on busy cores."""
ECHO = "import sys\nfor line in sys.stdin: print(line.strip() + '!', flush=True)\n"
DEAF = "import sys, time\nprint('here', flush=True)\nwhile True: time.sleep(1)\n"


class StepScene(Protocol):
    tasks: int

    def step(self, program: str) -> Step:
        """Of `tasks` tasks, each of which will run these lines of Python."""
        ...


def _hear(step: Step, count: int) -> list[Heard]:
    heard: list[Heard] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(heard) < count and not step.over and time.monotonic() < deadline_s:
        heard += [each for each in step.receive(1.0) if each.task is not None]
    return heard


def _hear_all(step: Step) -> list[Heard]:
    heard: list[Heard] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while not step.over and time.monotonic() < deadline_s:
        heard += step.receive(1.0)
    assert step.over
    return [each for each in heard if each.task is not None]


def what_is_sent_reaches_every_task_and_every_answer_has_its_task(scene: StepScene) -> None:
    step = scene.step(ECHO)
    step.start()
    try:
        step.send(["one\n", "two\n"])
        heard = _hear(step, 2 * scene.tasks)
    finally:
        step.stop(PATIENCE_S)
    for task in range(scene.tasks):
        assert [each.text for each in heard if each.task == task] == ["one!", "two!"]


def tasks_leave_when_their_input_is_closed(scene: StepScene) -> None:
    step = scene.step(ECHO)
    step.start()
    step.send(["one\n"])
    _hear(step, scene.tasks)
    began_s = time.monotonic()
    step.stop(PATIENCE_S)
    assert time.monotonic() - began_s < PATIENCE_S
    assert step.over


def tasks_that_do_not_leave_are_ended(scene: StepScene) -> None:
    step = scene.step(DEAF)
    step.start()
    assert [each.text for each in _hear(step, scene.tasks)] == ["here"] * scene.tasks
    step.stop(0.1)
    assert step.over
    step.stop(0.1)


def what_they_say_last_is_heard_and_then_it_is_over(scene: StepScene) -> None:
    step = scene.step("import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)\nsys.exit(3)\n")
    step.start()
    try:
        heard = _hear_all(step)
        assert step.receive(0.0) == []
    finally:
        step.stop(0.0)
    assert sorted((each.task, each.text, each.aside) for each in heard if each.text in ("out", "err")) == [
        (task, text, text == "err") for task in range(scene.tasks) for text in ("err", "out")
    ]


def a_line_of_nine_hundred_letters_comes_and_goes_whole(scene: StepScene) -> None:
    line = "x" * 898
    step = scene.step(ECHO)
    step.start()
    try:
        step.send([f"{line}\n"] * 50)
        heard = _hear(step, 50 * scene.tasks)
    finally:
        step.stop(PATIENCE_S)
    assert [each.text for each in heard] == [f"{line}!"] * 50 * scene.tasks


def nobody_waits_longer_than_was_said_for_tasks_that_say_nothing(scene: StepScene) -> None:
    step = scene.step(DEAF)
    step.start()
    try:
        _hear(step, scene.tasks)
        assert [each for each in step.receive(0.1) if each.task is not None] == []
    finally:
        step.stop(0.0)


PROMISES: tuple[Callable[[StepScene], None], ...] = (
    what_is_sent_reaches_every_task_and_every_answer_has_its_task,
    tasks_leave_when_their_input_is_closed,
    tasks_that_do_not_leave_are_ended,
    what_they_say_last_is_heard_and_then_it_is_over,
    a_line_of_nine_hundred_letters_comes_and_goes_whole,
    nobody_waits_longer_than_was_said_for_tasks_that_say_nothing,
)
