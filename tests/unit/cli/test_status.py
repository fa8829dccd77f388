from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.outlook import Holder, outlook
from slurm_resilience.cli.status import status
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.lease import Owner
from slurm_resilience.manifest.records import (
    Cause,
    CheckpointDamaged,
    CheckpointPublished,
    DecisionCarriedOut,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveFailed,
    StopAsked,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.process_identity import Liveness
from tests.unit.cli.told_runs import DEAD, ELSEWHERE, ended, own, resumed, saved, started, tell

PREEMPTED_ONCE: list[Record] = [
    *(started(1), resumed(1, 0), saved(10, 1), saved(20, 1), SaveFailed(1, 30, "disk full")),
    *(StopAsked(1, "preempted", "SIGTERM"), ended(1, step=25), DecisionCarriedOut(1, "scontrol requeue 100")),
    *(started(2), resumed(2, 20), saved(30, 2), CheckpointDamaged(checkpoint_id(10, 1), 2, "rank 0 is too short")),
]


@pytest.fixture(autouse=True)
def _no_slurm_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")


def show(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(status, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_a_run_is_shown_with_attempts_checkpoints_owner_and_what_comes_next(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *PREEMPTED_ONCE)
    own(run, 2)
    text = show(run.path)
    lines = text.splitlines()
    assert lines[0].startswith(f"run night shift in {run.path}, created 20")
    attempts = [line.split() for line in lines if line.split()[:2] in (["1", "100"], ["2", "100"])]
    assert attempts[0][2] == "0"
    assert attempts[1][2] == "1"
    assert "preempted: SIGTERM came" in text
    assert "requeue: somebody's turn" in text
    assert "(running)" in text
    assert "step-0000000010.a1" in text
    assert "damaged: rank 0 is too short" in text
    assert "3 MB" in text
    assert "last checkpoint: step-0000000030.a2; the next attempt goes on from step 30" in text
    assert f"owner: attempt 2, process {os.getpid()} on " in text
    assert lines[-1] == f"next: attempt 2 is running (`slurm-resilience stop {run.path}`)"


def test_json_holds_everything_under_names_that_stay(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *PREEMPTED_ONCE)
    own(run, 2)
    value: dict[str, Any] = json.loads(show(run.path, "--json"))
    assert list(value) == [
        *("format", "run", "run_id", "name", "created_s", "finished", "next_step", "last_checkpoint"),
        *("attempts_without_progress", "owner", "attempts", "checkpoints", "published", "next"),
    ]
    assert value["format"] == 1
    assert value["run"] == str(run.path)
    assert (value["next_step"], value["last_checkpoint"]) == (30, "step-0000000030.a2")
    assert value["owner"]["liveness"] == "alive"
    first, second = value["attempts"]
    assert first["ended"] == {
        "time_s": first["ended"]["time_s"],
        "cause": "preempted",
        "because": "SIGTERM came",
        "evidence": ["evidence"],
        "decision": "requeue",
        "decision_reason": "somebody's turn",
        "command_code": 75,
        "step": 25,
        "exclude": [],
    }
    assert (first["steps_lost"], first["last_step"], first["carried_out"]) == (5, 25, "scontrol requeue 100")
    assert first["saves_failed"] == [{"step": 30, "why": "disk full"}]
    assert first["stop_asked"] == {"reason": "preempted", "because": "SIGTERM"}
    assert (second["ended"], second["steps_lost"], second["last_step"]) == (None, None, 30)
    assert second["resumed"] == {"checkpoint": "step-0000000020.a1", "step": 20, "world_size": 2}
    assert [each["state"] for each in value["checkpoints"]] == ["damaged", "live", "live"]
    assert value["next"]["command"] == f"slurm-resilience stop {run.path}"


def test_what_lies_elsewhere_is_counted_among_the_live_ones_only(tmp_path: Path) -> None:
    told = [*PREEMPTED_ONCE, *(CheckpointPublished(checkpoint_id(step, 1), "s3://b/r") for step in (10, 20))]
    run = tell(tmp_path / "run", *told, CheckpointPublished(checkpoint_id(10, 1), "/old"))
    text = show(run.path)
    assert "published: 1 of 2 live checkpoints at s3://b/r\npublished: 0 of 2 live checkpoints at /old\n" in text
    value = json.loads(show(run.path, "--json"))["published"]
    assert value == {"live": 2, "places": [{"where": "s3://b/r", "live": 1}, {"where": "/old", "live": 0}]}
    silent = tell(tmp_path / "silent", *PREEMPTED_ONCE)
    assert "published:" not in show(silent.path)
    assert json.loads(show(silent.path, "--json"))["published"] == {"live": 2, "places": []}


def test_where_there_is_no_run_one_sentence_says_so(tmp_path: Path) -> None:
    text = show(tmp_path, code=78)
    assert text == f"status: there is no run in {tmp_path}: manifest.jsonl is missing\n"


def test_a_run_that_was_only_created_can_be_shown(tmp_path: Path) -> None:
    text = show(tell(tmp_path / "run").path)
    assert "last checkpoint: none yet" in text
    assert text.endswith("next: no attempt has started yet\n")


def test_a_run_whose_checkpoints_are_all_lost_says_so(tmp_path: Path) -> None:
    lost = CheckpointDamaged(checkpoint_id(10, 1), 1, "")
    assert "none of them can be loaded any more" in show(tell(tmp_path / "run", started(1), saved(10, 1), lost).path)


@pytest.mark.parametrize(("change", "word"), [({}, "alive"), (DEAD, "gone"), (ELSEWHERE, "unknown")])
def test_the_owner_is_shown_as_far_as_it_can_be_seen(tmp_path: Path, change: dict[str, object], word: str) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1, **change)
    assert f": {word}\n" in show(run.path)
    assert json.loads(show(run.path, "--json"))["owner"]["liveness"] == word


def owner(job: str | None = "100") -> Owner:
    return Owner(1, "node17", "boot", 4711, 5, None, job, None, "c1", 0.0)


@pytest.mark.parametrize(
    ("records", "holder", "sentence", "command"),
    [
        ([], None, "no attempt has started yet", None),
        ([started(1)], Holder(owner(), Liveness.ALIVE), "attempt 1 is running", "slurm-resilience stop runs/a"),
        ([started(1)], Holder(owner(), Liveness.UNKNOWN), "can't be told from here", "scontrol show job 100"),
        ([started(1)], Holder(owner(None), Liveness.UNKNOWN), "can't be told from here", "ssh node17 ps -p 4711"),
        ([started(1)], Holder(owner(), Liveness.GONE), "died without a word", "slurm-resilience resume runs/a"),
        ([started(1)], None, "died without a word", "slurm-resilience resume runs/a"),
        ([started(1), TrainingFinished(1, 50)], None, "the run is finished", None),
        (
            [started(1), ended(1)],
            None,
            "decided to requeue, and nothing shows that it was done",
            "slurm-resilience resume runs/a",
        ),
        (
            [started(1), saved(10, 1), ended(1), DecisionCarriedOut(1, "")],
            None,
            "the job is queued again and goes on from step 10",
            "squeue -j 100",
        ),
        ([started(1), ended(1, "leave")], None, "queued again and goes on from the beginning", "squeue -j 100"),
        ([started(1), ended(1, "restart"), DecisionCarriedOut(1, "")], None, "starts the next attempt", None),
        (
            [started(1), saved(10, 1), ended(1, "stop", Cause.OPERATOR_STOP)],
            None,
            "does not go on by itself; submit its batch script again to go on from step 10",
            None,
        ),
    ],
)
def test_what_comes_next_is_one_sentence_and_the_command_that_helps(
    records: list[Record], holder: Holder | None, sentence: str, command: str | None
) -> None:
    told: list[Record] = [RunCreated(RunId("r"), "n"), *records]
    chain = Chain.of([Line(seq, 0.0, record) for seq, record in enumerate(told, 1)])
    next_ = outlook(Path("runs/a"), chain, holder)
    assert sentence in next_.sentence
    assert next_.command == command


def test_status_loads_neither_torch_nor_the_network_of_slurm(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *PREEMPTED_ONCE)
    script = (
        "import sys; from slurm_resilience.cli.status import status;"
        f"status.main([{str(run.path)!r}], standalone_mode=False);"
        "print([m for m in ('torch', 'h5py', 'numpy', 'rich', 'psutil') if m in sys.modules], file=sys.stderr)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, cwd=root)
    assert done.stderr.strip() == "[]"
