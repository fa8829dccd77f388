from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from slurm_resilience.cli.outlook import Holder, Outlook, QueuedJob, considering, outlook, waiting_job
from slurm_resilience.cli.queued_job import job_as_json, look_at_job, print_job
from slurm_resilience.cli.status import status
from slurm_resilience.launch.plan import CommandKind, Plan, StopTimes, write_plan
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.lease import Owner
from slurm_resilience.manifest.records import (
    Cause,
    CheckpointDamaged,
    CheckpointPublished,
    CheckpointQuarantined,
    DecisionCarriedOut,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveFailed,
    StopAsked,
    SuccessorPlanned,
    SuccessorQueued,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import WITHDRAWN
from slurm_resilience.requeue.held import Held, Helper, explain_hold
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.slurm.client import JobState
from tests.faults.fake_slurm import running
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
    assert "2.86 MiB" in text
    assert "last checkpoint: step-0000000030.a2; the next attempt goes on from step 30" in text
    assert f"owner: attempt 2, process {os.getpid()} on " in text
    assert lines[-1] == f"next: attempt 2 is running (`slurm-resilience stop {run.path}`)"


def test_json_holds_everything_under_names_that_stay(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *PREEMPTED_ONCE)
    own(run, 2)
    value: dict[str, Any] = json.loads(show(run.path, "--json"))
    assert list(value) == [
        *("format", "run", "run_id", "name", "created_s", "finished", "next_step", "last_checkpoint"),
        *("attempts_without_progress", "budgets", "owner", "attempts", "checkpoints", "published", "quarantined"),
        *("queued_job", "next"),
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
        "outranked": [],
        "signature": None,
    }
    assert (first["steps_lost"], first["last_step"], first["carried_out"]) == (5, 25, "scontrol requeue 100")
    assert first["saves_failed"] == [{"step": 30, "why": "disk full"}]
    assert first["stop_asked"] == {"reason": "preempted", "because": "SIGTERM"}
    assert (second["ended"], second["steps_lost"], second["last_step"]) == (None, None, 30)
    assert second["resumed"] == {"checkpoint": "step-0000000020.a1", "step": 20, "world_size": 2}
    assert [each["state"] for each in value["checkpoints"]] == ["damaged", "live", "live"]
    assert value["next"]["command"] == f"slurm-resilience stop {run.path}"


CRASHED: list[Record] = [
    *(started(1), resumed(1, 0), saved(10, 1), saved(20, 1)),
    *(ended(1, cause=Cause.CRASHED, step=25), DecisionCarriedOut(1, "scontrol requeue 100")),
    *(started(2), resumed(2, 20), CheckpointQuarantined(checkpoint_id(20, 1), 2, "two died of it")),
    replace(ended(2, cause=Cause.HUNG, step=22), outranked=("log text: nothing",), signature="ValueError: nan"),
    *(DecisionCarriedOut(2, "scontrol requeue 100"), started(3), resumed(3, 10)),
    *(ended(3, cause=Cause.CRASHED, step=12), DecisionCarriedOut(3, "scontrol requeue 100")),
]


def test_what_is_used_of_each_limit_is_shown_with_the_limits_of_the_newest_attempt(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *CRASHED)
    text = show(run.path)
    assert (
        "used since the last progress: 1 of 2 attempts without progress, 1 of 3 crashes, 1 of 2 quarantines\n" in text
    )
    assert "unused (limits of the defaults, for want of attempt 3's plan): 3 hangs, 5 storage faults" in text
    run.attempt(3).mkdir(parents=True)
    plan = plan_for(run, Limits(crashes=7, hangs=9))
    write_plan(run.plan(3), plan)
    text = show(run.path)
    assert "1 of 7 crashes" in text
    assert "unused (limits of attempt 3): 9 hangs" in text
    value = json.loads(show(run.path, "--json"))["budgets"]
    assert value["limits_of"] == "attempt 3"
    assert value["since_progress"]["crashes"] == {"used": 1, "limit": 7}
    assert value["spent"] == []


def test_what_is_in_quarantine_is_named_with_the_way_back(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *CRASHED)
    name = checkpoint_id(20, 1)
    helps = f"`slurm-resilience checkpoints release {run.path} {name}`"
    assert f"in quarantine: {name}: two died of it ({helps})\n" in show(run.path)
    value = json.loads(show(run.path, "--json"))
    assert value["quarantined"] == [name]
    assert value["attempts"][1]["quarantined"] == [name]


def test_one_attempt_is_shown_in_full(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *CRASHED)
    lines = [line.strip() for line in show(run.path, "--attempt", "2").splitlines()]
    assert lines[0] == "attempt 2: job 100, restart 1, on node1"
    for line in (
        "resumed  step-0000000020.a1, step 20, 2 ranks",
        "cause  hung",
        "because  SIGTERM came",
        "evidence  evidence",
        "not believed  log text: nothing",
        "signature  ValueError: nan",
        "left with  75",
        "put aside  step-0000000020.a1",
        "decision  requeue",
        "reason  somebody's turn",
        "carried out  scontrol requeue 100",
    ):
        assert line in lines
    value = json.loads(show(run.path, "--attempt", "2", "--json"))
    assert value["ended"]["signature"] == "ValueError: nan"
    assert "run" not in value


def plugin_told(run: RunDirectory, life: str, *tasks: Mapping[str, object]) -> None:
    """What the plugin would have brought there; its times are those of the clock that told the run."""
    folder = run.path / "exit-notes" / life
    folder.mkdir(parents=True)
    job, restart = life.split("-")
    plain = {"job": job, "restart": int(restart), "step": 0, "pid": 4711, "status": 0, "time": 1_700_000_400.0}
    lines = [json.dumps({**plain, "node": f"n{rank}", "rank": rank, **task}) for rank, task in enumerate(tasks)]
    (folder / "n0.jsonl").write_text("\n".join(lines))


def test_of_one_attempt_it_is_shown_how_each_of_its_tasks_ended(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), ended(1))
    plugin_told(run, "100-0", {"status": 9}, {"status": 3 << 8, "time": 1_700_000_401.5}, {"restart": 1})
    (run.path / "exit-notes" / "100-0" / "n7.health.json").write_text(
        json.dumps({"node": "n7", "mode": "warn", "findings": ["disk: nearly full"]})
    )
    text = show(run.path, "--attempt", "1")
    lines = [line.split() for line in text.splitlines()]
    assert ["task", "node", "ended", "by", "at"] in lines
    assert ["0", "n0", "SIGKILL"] in [line[:3] for line in lines]
    assert ["1", "n1", "exit", "code", "3"] in [line[:5] for line in lines]
    assert "n2" not in text
    assert "health  node n7 is doubtful: disk: nearly full" in text
    value = json.loads(show(run.path, "--attempt", "1", "--json"))
    assert value["tasks"][0] == {
        "rank": 0,
        "node": "n0",
        "step": 0,
        "pid": 4711,
        "code": None,
        "signal": "SIGKILL",
        "time_s": 1_700_000_400.0,
    }
    assert [task["code"] for task in value["tasks"]] == [None, 3]
    assert value["health"] == [{"node": "n7", "mode": "warn", "findings": ["disk: nearly full"]}]
    assert json.loads(show(run.path, "--json"))["attempts"][0]["tasks"] == value["tasks"]


def test_of_a_large_step_only_the_tasks_that_did_not_leave_in_order_are_shown(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), ended(1))
    plugin_told(run, "100-0", *({"status": 11 if rank == 70 else 0} for rank in range(200)))
    text = show(run.path, "--attempt", "1")
    assert "SIGSEGV" in text
    assert "exit code 0" not in text
    assert text.endswith("and 199 other tasks: --json has all of them\n")


def test_where_there_is_no_plugin_nothing_is_said_of_tasks(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1, job=None), ended(1))
    assert "task" not in show(run.path, "--attempt", "1")
    value = json.loads(show(run.path, "--attempt", "1", "--json"))
    assert (value["tasks"], value["health"]) == ([], [])


def test_a_decision_that_a_cancellation_has_overtaken_is_not_said_to_go_on(tmp_path: Path) -> None:
    why = "job 100 was cancelled; to go on, submit it again"
    run = tell(tmp_path / "run", started(1), ended(1), DecisionCarriedOut(1, f"{WITHDRAWN}{why}"))
    text = show(run.path)
    assert text.endswith(
        f"next: the run does not go on by itself: {why} (`slurm-resilience resume {run.path} --anyway`)\n"
    )


def test_an_attempt_that_runs_or_never_told_is_shown_as_such(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *PREEMPTED_ONCE, SuccessorPlanned(2, "token"))
    assert "ended  nobody has told" in show(run.path, "--attempt", "2")
    own(run, 2)
    text = show(run.path, "--attempt", "2")
    assert "ended  it is running" in text
    assert "successor  planned as token; its job is not told" in text


def test_an_attempt_that_never_was_is_refused(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", *PREEMPTED_ONCE)
    assert "has no attempt 7: it has those up to 2" in show(run.path, "--attempt", "7", code=78)
    assert "it has none yet" in show(tell(tmp_path / "new").path, "--attempt", "1", code=78)


def test_the_successors_job_is_named(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1), SuccessorQueued(1, "124"))
    assert "successor of attempt 1: job 124\n" in show(run.path)
    assert json.loads(show(run.path, "--json"))["attempts"][0]["successor"] == "124"


def squeue_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A Slurm of one command, which `script` is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("squeue", "scontrol"):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


QUEUED: list[Record] = [started(1), saved(10, 1), ended(1), DecisionCarriedOut(1, "scontrol requeue 100")]


def test_a_slurm_that_says_no_or_nothing_is_said_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue_that(tmp_path, monkeypatch, "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
    text = show(tell(tmp_path / "run", *QUEUED).path)
    assert "job 100: Slurm did not answer\n" in text
    assert text.splitlines()[-1].startswith("next: the job is queued again")


def test_a_silent_slurm_holds_nobody_up_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue_that(tmp_path, monkeypatch, "exec sleep 30")
    queued = look_at_job(tmp_path, "100", timeout_s=0.2)
    assert queued is not None
    assert (queued.state, queued.held) == (None, None)
    assert queued.said == "Slurm did not answer"


def test_without_slurm_nothing_is_said_of_a_queued_job(tmp_path: Path) -> None:
    assert look_at_job(tmp_path, "100") is None
    assert json.loads(show(tell(tmp_path / "run", *QUEUED).path, "--json"))["queued_job"] is None


def test_what_slurm_says_of_the_queued_job_is_shown_with_what_helps() -> None:
    record = replace(running("100"), state=JobState.PENDING, held=True, reason="JobHeldAdmin")
    held = explain_hold(record, None, now_s=0.0)
    assert held is not None
    queued = QueuedJob("100", "PENDING", f"PENDING: {held.sentence}", held)
    said = CliRunner().invoke(click.command()(lambda: print_job(queued))).output
    assert said == (
        "job 100: PENDING: an operator holds it, or Slurm itself, which could not start it (a prolog, a node); "
        "its owner can't release it "
        "(`scontrol release 100`, by an operator of the cluster)\n"
    )
    assert job_as_json(queued)["who"] == "operator"
    assert job_as_json(queued)["never_starts_by_itself"] is True


@pytest.mark.parametrize(
    ("records", "holder", "job"),
    [
        ([], None, None),
        ([started(1), SuccessorQueued(1, "124")], "alive", "124"),
        ([started(1)], "alive", None),
        ([started(1)], None, "100"),
        ([started(1), SuccessorQueued(1, "124")], None, "124"),
        ([started(1), ended(1)], None, "100"),
        ([started(1), ended(1, "hold")], None, "100"),
        ([started(1), SuccessorQueued(1, "124"), ended(1, "successor")], None, "124"),
        ([started(1), ended(1, "stop")], None, None),
        ([started(1), TrainingFinished(1, 50), ended(1, "finish")], None, None),
    ],
)
def test_the_job_to_ask_about_is_the_one_that_goes_on(records: list[Record], holder: str | None, job: str) -> None:
    told: list[Record] = [RunCreated(RunId("r"), "n"), *records]
    chain = Chain.of([Line(seq, 0.0, record) for seq, record in enumerate(told, 1)])
    assert waiting_job(chain, None if holder is None else Holder(owner(), Liveness(holder))) == job


NEXT = Outlook("the job is queued again", "squeue -j 100")


@pytest.mark.parametrize(
    ("queued", "sentence", "command"),
    [
        (None, NEXT.sentence, NEXT.command),
        (QueuedJob("100", None, "Slurm did not answer"), NEXT.sentence, NEXT.command),
        (QueuedJob("100", "RUNNING", "RUNNING"), NEXT.sentence, NEXT.command),
        (QueuedJob("100", "UNKNOWN", "UNKNOWN"), NEXT.sentence, NEXT.command),
        (QueuedJob("100", "CANCELLED", ""), "is over: CANCELLED", "slurm-resilience resume runs/a"),
        (
            QueuedJob("100", "PENDING", "", Held("somebody holds it", "scontrol release 100", Helper.OWNER, True)),
            "never starts by itself: somebody holds it",
            "scontrol release 100",
        ),
        (
            QueuedJob("100", "PENDING", "", Held("it waits", None, Helper.NOBODY, False)),
            NEXT.sentence,
            NEXT.command,
        ),
    ],
)
def test_what_slurm_says_of_the_queued_job_outranks_what_was_decided(
    queued: QueuedJob | None, sentence: str, command: str | None
) -> None:
    found = considering(NEXT, Path("runs/a"), queued)
    assert sentence in found.sentence
    assert found.command == command


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
            [started(1), ended(1, "hold", Cause.CRASHED)],
            None,
            "decided to hold the job that Slurm has queued, and nothing shows that it was done",
            "slurm-resilience resume runs/a",
        ),
        (
            [started(1), ended(1, "hold", Cause.CRASHED), DecisionCarriedOut(1, "scancel 100")],
            None,
            "Slurm is kept from starting its job (scancel 100)",
            "slurm-resilience resume runs/a --anyway",
        ),
        (
            [started(1), ended(1, "successor", Cause.CRASHED)],
            None,
            "decided to leave it to a successor, and nothing shows that it was done",
            "slurm-resilience resume runs/a",
        ),
        (
            [
                *(started(1), saved(10, 1), SuccessorQueued(1, "124")),
                *(ended(1, "successor", Cause.CRASHED), DecisionCarriedOut(1, "")),
            ],
            None,
            "the successor's job goes on from step 10",
            "squeue -j 124",
        ),
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


def plan_for(run: RunDirectory, limits: Limits) -> Plan:
    times = StopTimes(10, 60, 5, 5)
    argv, here = ("t.py",), "h"
    return Plan(
        *(str(run.path), "id", 3, CommandKind.TASK, argv, "python", 1, 1, None, None, None, None, None, 60.0, times),
        *("/dev/shm", here, "boot", 1, 1, True),
        limits=limits,
    )


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
