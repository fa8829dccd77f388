"""What lies in an attempt's folder, read as witnesses: unreadable is one witness less, never another word."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointCommitted,
    RunId,
    SaveFailed,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.witnesses import (
    OUTPUT_BYTES,
    OUTPUT_LINES,
    WORDS,
    agents_and_beats,
    exception_line,
    health_of_nodes,
    last_words,
    refusal,
    saves_refused,
    task_ends,
    telling_lines,
)


def unheard_by_anybody(_: str) -> None:
    """Hears nothing."""


PLAIN = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise ValueError("bad")
ValueError: bad
"""
CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
OSError: [Errno 28] No space left on device: '/x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in <module>
    save()
slurm_resilience.errors.CheckpointUnavailable: /x can't be written: No space left on device
"""
LONG = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    all_reduce()
torch.distributed.DistBackendError: NCCL error in: a.cpp:1, unhandled system error
ncclSystemError: System call (e.g. socket, malloc) or external library call failed
Last error:
Connect to n2 failed
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    run.attempt(1).mkdir(parents=True)
    return run


def attempt(
    *,
    committed: tuple[int, ...] = (),
    failed: tuple[int, ...] = (),
    restarts: int | None = None,
    job: str = "7",
    started_s: float = 0.0,
) -> Attempt:
    return Attempt(
        1,
        AttemptStarted(1, "batch", ("train.py",), "n1", job, restarts),
        started_s,
        checkpoints=tuple(
            CheckpointCommitted(checkpoint_id(step, 1), step, 1, SaveReason.PERIODIC, 1, (), 1.0) for step in committed
        ),
        saves_failed=tuple(SaveFailed(1, step, f"no space at {step}") for step in failed),
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PLAIN, "ValueError: bad"),
        (CHAINED, "slurm_resilience.errors.CheckpointUnavailable: /x can't be written: No space left on device"),
        (
            LONG,
            "torch.distributed.DistBackendError: NCCL error in: a.cpp:1, unhandled system error … Connect to n2 failed",
        ),
        ("MemoryError", "MemoryError"),
        ("", "no words"),
        ("x" * 1000, "x" * WORDS),
    ],
)
def test_the_line_that_names_the_exception_is_found(text: str, line: str) -> None:
    assert exception_line(text) == line


def test_the_first_rank_to_fall_is_named_first(run: RunDirectory) -> None:
    for rank, time_s in ((0, 30.0), (12, 10.0)):
        path = run.rank_error(1, rank)
        path.write_text(PLAIN)
        os.utime(path, (time_s, time_s))
    assert [(words.rank, words.time_s) for words in last_words(run, 1)] == [(12, 10.0), (0, 30.0)]
    assert tuple(words.text for words in last_words(run, 1)) == (
        "rank-00012: ValueError: bad",
        "rank-00000: ValueError: bad",
    )


def test_a_rank_whose_words_cannot_be_read_is_one_witness_less(run: RunDirectory) -> None:
    run.rank_error(1, 0).mkdir()
    (run.attempt(1) / "error-rank-x.txt").write_text(PLAIN)
    assert last_words(run, 1) == ()
    assert last_words(run, 2) == ()


def test_where_nothing_can_be_listed_there_are_no_witnesses_and_nothing_ends(run: RunDirectory) -> None:
    run.attempt(1).rmdir()
    run.attempt(1).symlink_to("x" * 300)  # whoever follows it is refused: ENAMETOOLONG, as it might be ESTALE or EIO
    said: list[str] = []
    assert agents_and_beats(run, 1, said.append) == ([], {})
    assert last_words(run, 1) == ()
    assert len(said) == 1
    assert "can't be listed" in said[0]


NOTE = {"job": "7", "restart": 2, "step": 0, "node": "n1", "rank": 0, "pid": 1, "status": 9, "time": 1.0}


def write_notes(run: RunDirectory, life: str, *notes: dict[str, object]) -> None:
    folder = run.path / "exit-notes" / life
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "n1.jsonl").write_text("".join(f"{json.dumps(note)}\n" for note in notes))


def chain_of(*attempts: Attempt) -> Chain:
    return Chain(RunId("r"), "night shift", 0.0, attempts, (), finished=False)


def test_exit_notes_are_those_of_this_life_of_the_job(run: RunDirectory) -> None:
    write_notes(run, "7-2", NOTE, {**NOTE, "restart": 1})
    for restarts, notes in ((2, 1), (None, 0)):
        of = attempt(restarts=restarts)
        assert len(task_ends(run, chain_of(of), of, pytest.fail)) == notes


def test_a_life_of_an_array_element_is_named_by_array_and_element(run: RunDirectory) -> None:
    write_notes(run, "77_4-0", {**NOTE, "job": "77_4", "restart": 0})
    of = attempt(job="77_4")
    assert len(task_ends(run, chain_of(of), of, pytest.fail)) == 1


def test_of_two_attempts_in_one_life_each_has_the_tasks_that_ended_in_its_own_time(run: RunDirectory) -> None:
    before_both = 90.0
    write_notes(run, "7-0", *({**NOTE, "restart": 0, "time": at_s} for at_s in (before_both, 120.0, 210.0)))
    first = attempt(started_s=100.0)
    second = replace(attempt(started_s=200.0), number=2)
    elsewhere = replace(attempt(started_s=110.0, job="8"), number=3)
    chain = chain_of(first, second, elsewhere)
    assert [note.time_s for note in task_ends(run, chain, first, pytest.fail)] == [120.0]
    assert [note.time_s for note in task_ends(run, chain, second, pytest.fail)] == [210.0]


def test_what_ails_a_node_is_told_by_its_note(run: RunDirectory) -> None:
    folder = run.exit_notes("7", None)
    assert refusal(run, "7", None) is None
    folder.mkdir(parents=True)
    (folder / "n2.health.json").write_text('{"node": "n2", "mode": "warn", "findings": ["disk: full"]}')
    assert [note.node for note in health_of_nodes(run, attempt(), pytest.fail)] == ["n2"]
    assert refusal(run, "7", 0) is None
    (folder / "n3.health.json").write_text('{"node": "n3", "mode": "exclude", "findings": ["gpu-ecc: 3 errors"]}')
    assert refusal(run, "7", 0) == "node n3 is unhealthy: gpu-ecc: 3 errors"
    assert refusal(run, "7", 1) is None
    assert refusal(run, None, None) is None


def test_only_the_lines_of_this_attempt_that_say_something_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "slurm-7.out"
    before = "srun: error: Node failure on n1\n"
    output.write_text(f"{before}step 3\nOSError: [Errno 28] No space left on device\nstep 4\n")
    assert telling_lines(output, len(before), unheard_by_anybody) == ("OSError: [Errno 28] No space left on device",)
    assert len(telling_lines(output, 0, unheard_by_anybody)) == 2
    assert len(telling_lines(output, 10_000, unheard_by_anybody)) == 2  # it was cut off and written anew
    assert telling_lines(tmp_path / "none", 0, unheard_by_anybody) == ()


def test_of_a_flood_the_first_and_the_last_lines_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "slurm-7.out"
    output.write_text("".join(f"srun: error: n{n}: task {n}: Killed\n" for n in range(200)) * 2)
    lines = telling_lines(output, 0, unheard_by_anybody)
    assert len(lines) <= 2 * OUTPUT_LINES
    assert (lines[0], lines[-1]) == ("srun: error: n0: task 0: Killed", "srun: error: n199: task 199: Killed")


def test_a_root_is_kept_among_ever_so_many_lines_of_what_followed(tmp_path: Path) -> None:
    output = tmp_path / "slurm-7.out"
    flood = "".join(f"[rank{n}]: RuntimeError: Connection closed by peer [10.0.0.{n % 250}]:{n}\n" for n in range(500))
    root = "[rank3]: OSError: [Errno 28] No space left on device"
    output.write_text(f"{flood}{root}\n{flood}")
    lines = telling_lines(output, 0, unheard_by_anybody)
    assert root in lines
    assert len(lines) <= 2 * OUTPUT_LINES


def test_no_more_than_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    output = tmp_path / "slurm-7.out"
    with output.open("wb") as file:
        file.write(b"srun: error: Node failure on n1\n")
        file.truncate(OUTPUT_BYTES + 1000)
    assert telling_lines(output, 0, unheard_by_anybody) == ()


def test_a_save_that_a_later_one_made_good_is_forgiven() -> None:
    assert saves_refused(attempt(committed=(10, 30), failed=(20, 40))) == ("no space at 40",)
    assert saves_refused(attempt(failed=(20,))) == ("no space at 20",)


def test_a_stumble_over_the_output_is_told_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise AttributeError("half a line")

    monkeypatch.setattr("slurm_resilience.triage.reading.read_logs.read_logs", stumble)
    (tmp_path / "output").write_text("OSError: [Errno 28] No space left on device\n")
    said: list[str] = []
    assert telling_lines(tmp_path / "output", 0, said.append) == ()
    assert len(said) == 1
    assert "half a line" in said[0]
