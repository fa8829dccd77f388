"""The node program as a process, led by the conductor: whatever a check does in it, an answer comes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from slurm_resilience.preflight.channel import CONDUCTOR, lines_of
from slurm_resilience.preflight.check import Check
from slurm_resilience.preflight.conductor import preflight
from slurm_resilience.preflight.local_step import local_step
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.request import PreflightRequest, Registry
from slurm_resilience.preflight.result import Outcome, Problem, Result, ok
from slurm_resilience.preflight.round import Answer, Card, Round

PROGRAM = (sys.executable, "-m", "slurm_resilience.preflight.node", "--deadline=240")
PATIENT = PreflightRequest(time_limit_s=180, start_limit_s=60, silence_limit_s=60)
"""For two busy cores: what ends at once doesn't wait for these."""
WORK = "tests.unit.preflight.node_work"
LONG_S = 100.0
"""For checks that end by themselves."""
HANG_S = 6.0
"""For those that hang: long enough to come so far, with all the others beside them on two busy cores."""

pytestmark = pytest.mark.timeout(300)


def _check(name: str, function: str, timeout_s: float = LONG_S, **rest: Any) -> Check:
    return Check(name, name, f"{WORK}:{function}", timeout_s, **rest)


CHECKS = (
    _check("fine", "fine"),
    _check("hangs", "hang", HANG_S),
    _check("mount", "hang", HANG_S, hung=Outcome.FAIL),
    _check("crashes", "crash"),
    _check("raises", "raise_"),
    _check("leaves", "leave"),
    _check("exits", "exit_"),
    _check("silent", "silent"),
    _check("noisy", "noisy"),
    _check("chatterbox", "chatterbox", HANG_S),
    _check("large", "large"),
    _check("missing", "there_is_no_such"),
    Check("nowhere", "no module", "there.is.no.module:check", LONG_S),
    _check("speed-1", "span", alone=True),
    _check("speed-2", "span", alone=True),
)


def _conduct(nodes: Iterable[str], registry: Registry, request: PreflightRequest = PATIENT, **env: str) -> Report:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **env}
    return preflight(request, local_step(PROGRAM, tuple(nodes), environment), registry, under_slurm=False)


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("preflight") / "pid"


@pytest.fixture(scope="module")
def report(left_behind: Path) -> Report:
    """Of one node on which everything goes wrong that can."""
    registry = Registry(checks=CHECKS, baselines=lambda _: {"n1": {"storage-speed": {"write_bytes_per_s": [1]}}})
    return _conduct(["n1"], registry, LEFT_BEHIND=str(left_behind))


def _of(report: Report, check: str) -> list[Result]:
    return [result for result in report.results if result.check == check]


def _said(report: Report, check: str) -> list[tuple[Outcome, str]]:
    return [(result.finding.outcome, result.finding.sentence) for result in _of(report, check)]


def test_every_check_has_an_outcome_and_the_node_was_there_to_the_end(report: Report) -> None:
    assert {result.check for result in report.results} == {"presence", *(check.name for check in CHECKS)}
    assert _said(report, "presence")[0][0] is Outcome.OK


def test_a_check_knows_its_node_and_what_was_measured_there_before(report: Report) -> None:
    (result,) = _of(report, "fine")
    assert result.finding.sentence == "fine on n1"
    assert result.finding.measured["baseline"] == {"storage-speed": {"write_bytes_per_s": [1]}}


def test_a_check_that_hangs_is_broken_with_how_far_it_came_and_what_it_had_found(report: Report) -> None:
    assert _said(report, "hangs") == [
        (Outcome.OK, "the first half"),
        (Outcome.BROKEN, "no answer within 6 s, while writing /scratch/x"),
    ]


def test_where_hanging_is_the_fault_that_is_looked_for_it_is_a_failure_of_the_node(report: Report) -> None:
    finding = _of(report, "mount")[-1].finding
    assert (finding.outcome, finding.problem) == (Outcome.FAIL, Problem.NODE)
    assert finding.remedy
    assert report.exclude == ("n1",)


def test_what_a_hanging_check_has_started_is_killed_with_it(report: Report, left_behind: Path) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        helper = psutil.Process(int(left_behind.read_text()))
        _wait_until(lambda: not _lives(helper))


def test_a_check_that_crashes_is_broken_with_its_signal(report: Report) -> None:
    ((outcome, sentence),) = _said(report, "crashes")
    assert outcome is Outcome.BROKEN
    assert sentence.startswith("was ended by SIGSEGV, while asking the driver")


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        ("raises", "raised ValueError: no such line, while reading /proc/x"),
        ("leaves", "ended with exit code 3; it last printed: no module named torch"),
        ("exits", "raised SystemExit: I have had enough"),
        ("silent", "ended without a finding"),
        ("missing", f"raised AttributeError: module '{WORK}' has no attribute 'there_is_no_such'"),
        ("nowhere", "raised ModuleNotFoundError: No module named 'there'"),
        ("chatterbox", "no answer within 6 s"),
    ],
)
def test_a_check_that_fails_itself_is_broken_and_says_how(report: Report, check: str, sentence: str) -> None:
    assert _said(report, check)[-1] == (Outcome.BROKEN, sentence)


def test_what_a_check_prints_never_comes_between_us(report: Report) -> None:
    assert _said(report, "noisy") == [(Outcome.OK, "said it anyway")]


def test_a_finding_of_half_a_megabyte_arrives_whole(report: Report) -> None:
    (result,) = _of(report, "large")
    assert result.finding.measured["values"] == list(range(100_000))


def test_checks_that_measure_a_speed_run_one_by_one(report: Report) -> None:
    spans = [result.finding.measured for check in ("speed-1", "speed-2") for result in _of(report, check)]
    first, second = sorted(spans, key=lambda span: span["began_s"])
    assert first["ended_s"] <= second["began_s"]


@dataclass
class Asking:
    """A round of three nodes."""

    function: str
    name: str = "asking"
    timeout_s: float = LONG_S
    cards: Mapping[int, Card] = field(default_factory=dict)
    answers: Mapping[int, Answer] = field(default_factory=dict)

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        return {task: {"number": task + 10} for task in cards if task != 1}

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        self.cards, self.answers = dict(cards), dict(answers)
        # While the nodes are there, their echo is.
        return [Result(self.name, card.node, ok(" ".join(map(_echo, card.ports)))) for card in cards.values()]

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return None


def _echo(port: int) -> str:
    """Half a megabyte there and back, in pieces."""
    data, back = bytes(range(256)) * 2048, bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=100) as connection:
        for start in range(0, len(data), 1 << 16):
            connection.sendall(data[start : start + (1 << 16)])
            while len(back) < start + (1 << 16):
                back += connection.recv(1 << 16)
    return "echo" if bytes(back) == data else "garbled"


def test_nodes_take_part_in_rounds_and_their_echo_answers_until_they_leave() -> None:
    doubling = Asking(f"{WORK}:double")
    hanging = Asking(f"{WORK}:hang_in_round", "hanging", HANG_S)
    raising = Asking(f"{WORK}:raise_in_round", "raising")
    report = _conduct(["n1", "n2", "n3"], Registry(rounds=lambda **_: (doubling, hanging, raising)))
    assert [answer.values for answer in doubling.answers.values()] == [
        {"node": "n1", "twice": 20},
        {"node": "n3", "twice": 24},
    ]
    assert {answer.trouble for answer in hanging.answers.values()} == {
        "no answer within 6 s, while connecting to n3:15412"
    }
    assert {answer.trouble for answer in raising.answers.values()} == {"raised OSError: [Errno 5] Input/output error"}
    assert {sentence for _, sentence in _said(report, "asking")} == {"echo echo"}
    assert report.exit_code == 0
    assert report.nodes == ("n1", "n2", "n3")
    for card in doubling.cards.values():
        for port in card.ports:
            _wait_until(partial(_is_closed, port))


def _is_closed(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_stop_ends_it_at_once_and_leaves_no_process() -> None:
    seen: list[float] = []

    def stopped() -> bool:
        """As soon as the check is at work."""
        if not seen and any("node_work" in " ".join(_argv(child)) or child.children() for child in _children()):
            seen.append(time.monotonic())
        return bool(seen)

    registry = Registry(checks=(_check("hangs", "hang", 3000.0),))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LEFT_BEHIND": os.devnull}
    report = preflight(PATIENT, local_step(PROGRAM, ("n1",), environment), registry, stopped=stopped)
    assert (report.outcome, report.sentence) == ("broken", "interrupted")
    assert not _children()


def _start(*words: str, **env: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **env}
    program = (sys.executable, "-m", "slurm_resilience.preflight.node", *words)
    return subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def test_it_leaves_at_its_own_deadline_when_nobody_says_anything() -> None:
    with _start("--deadline=0.2") as process:
        assert process.wait(timeout=100) == 0


def test_it_leaves_when_its_input_ends() -> None:
    with _start("--deadline=3000") as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=100) == 0


def test_when_it_is_killed_nothing_of_it_lives_on(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with _start("--deadline=3000", LEFT_BEHIND=str(pid_file)) as process:
        assert process.stdin is not None
        check = {"name": "hangs", "what": "", "function": f"{WORK}:hang", "timeout_s": 3000.0, "hung": "broken"}
        orders: list[dict[str, Any]] = [
            {"kind": "hello", "context": {}},
            {"kind": "checks", "checks": [{**check, "alone": False}]},
        ]
        for number, order in enumerate(orders):
            process.stdin.write("".join(lines_of(CONDUCTOR, number, order)).encode())
        process.stdin.flush()
        _wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()))
        family = psutil.Process(process.pid).children()  # the echo and the check; not what the check has started
        process.kill()
        _wait_until(lambda: not any(_lives(child) for child in family))
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "slurm_resilience.preflight.node" in _argv(child)]


def _argv(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return [str(word) for word in process.cmdline()]
    return []
