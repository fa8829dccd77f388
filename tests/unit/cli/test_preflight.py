"""The command line of preflight: what is refused, what is printed, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_resilience.cli import preflight as module
from slurm_resilience.cli.main import cli
from slurm_resilience.preflight import conductor, registry
from slurm_resilience.preflight.check import Check
from slurm_resilience.preflight.report import Report
from slurm_resilience.preflight.request import PreflightRequest, Registry
from slurm_resilience.preflight.result import Problem, fail, ok, warn
from slurm_resilience.preflight.result import Result as Found
from tests.unit.cli.told_runs import saved, started, tell

FAILED = Report(
    outcome="fail",
    exit_code=2,
    sentence="n3 is not fit for the training",
    job="12",
    restart=0,
    nodes=("n1", "n2", "n3"),
    started_s=0.0,
    took_s=4.2,
    results=(
        *(Found("gpu", node, ok("8 GPUs are fine"), 0.2) for node in ("n1", "n2")),
        Found("gpu", "n3", fail(Problem.NODE, "GPU 2 [of 8] is gone", "reset it"), 1.5),
        *(Found("swap", node, warn(Problem.NODE, "it swaps", "end what swaps")) for node in ("n1", "n2", "n3")),
    ),
    exclude=("n3",),
    drain=('scontrol update NodeName=n3 State=DRAIN Reason="[node_problem] preflight: gpu: GPU 2 is gone"',),
)


class Asked:
    """Stands for the conductor: what it was asked for."""

    request: PreflightRequest
    report = FAILED


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Outside of any job, with two checks, and a conductor that starts nothing."""
    for name in ("SLURM_JOB_ID", "SLURM_RESILIENCE_RUN_DIR", "SLURM_NTASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    known = Registry(
        checks=(Check("gpu", "all GPUs answer", "m:gpu"), Check("swap", "it isn't swapping", "m:swap")),
        about_across={"same-versions": "versions"},
    )
    seen = Asked()

    def conduct(request: PreflightRequest, *_: object, **__: object) -> Report:
        seen.request = request
        return seen.report

    monkeypatch.setattr(registry, "registered", lambda _: known)
    monkeypatch.setattr(conductor, "preflight", conduct)
    return seen


def _preflight(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["preflight", *words], env=env)


def test_people_get_one_table_the_worst_first_with_remedies_and_a_verdict() -> None:
    lines = [line.split() for line in _preflight("--mode=local").stdout.splitlines()]
    assert lines[:5] == [
        "CHECK OUTCOME NODES WHAT".split(),
        "gpu FAIL n3 GPU 2 [of 8] is gone [node problem]".split(),
        "swap WARN 3 nodes it swaps [node problem]".split(),
        "gpu ok n[1-2] 8 GPUs are fine".split(),
        [],
    ]
    assert [" ".join(line) for line in lines[5:]] == [
        "to do: gpu on n3: reset it",
        "to do: swap on 3 nodes: end what swaps",
        "3 nodes, 4.2 s; the slowest check: gpu, 1.5 s on n3",
        "fail: n3 is not fit for the training",
    ]


def test_the_drain_lines_are_shown_to_who_asks_for_them() -> None:
    assert "scontrol" not in _preflight("--mode=local").stdout
    assert FAILED.drain[0] in _preflight("--mode=local", "--admin").stdout.splitlines()


def test_programs_get_one_object_and_nothing_else_on_standard_output() -> None:
    answer = _preflight("--mode=local", "--json")
    assert json.loads(answer.stdout)["exclude"] == ["n3"]
    assert answer.exit_code == 2


def test_the_report_is_kept_in_the_run_and_where_it_was_asked_for(tmp_path: Path) -> None:
    answer = _preflight("--mode=local", f"--run-dir={tmp_path / 'run'}", f"--output={tmp_path / 'out.json'}")
    kept = tmp_path / "run" / "preflight" / "12-0.json"
    assert kept.read_text() == (tmp_path / "out.json").read_text()
    assert answer.stderr == ""


def test_a_report_that_cannot_be_kept_is_a_word_and_changes_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = _preflight("--mode=local", f"--output={tmp_path / 'file' / 'out.json'}")
    assert answer.exit_code == 2
    assert "could not be written" in answer.stderr


def test_what_could_not_run_does_not_replace_an_earlier_report_of_the_run(tmp_path: Path, asked: Asked) -> None:
    _preflight("--mode=local", f"--run-dir={tmp_path}")
    before = (tmp_path / "preflight" / "12-0.json").read_text()
    asked.report = Report("broken", 3, "interrupted", "12", 0, (), 0.0, 0.0, ())
    assert _preflight("--mode=local", f"--run-dir={tmp_path}").exit_code == 3
    assert (tmp_path / "preflight" / "12-0.json").read_text() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only=gpus"], "there is no check 'gpus'"),
        (["--skip=gpu,nonsense"], "there is no check 'nonsense'"),
        (["--only=same-versions"], "same-versions compares"),
        (["--checkpoint-size=much"], "is no size"),
        (["--checkpoint-size=80GB/s"], "is no size"),
        (["--time-limit=0"], "0"),
        (["--mode=local", "--nodes=4"], "--mode=local looks at this machine"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_a_wrong_command_line_could_not_run_and_says_why(words: list[str], said: str) -> None:
    answer = _preflight(*words)
    assert (answer.exit_code, answer.stdout) == (3, "")
    assert said in answer.stderr


def test_a_mistake_of_ours_says_nothing_about_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def conduct(*_: object, **__: object) -> Report:
        raise KeyError("oh")

    monkeypatch.setattr(conductor, "preflight", conduct)
    assert _preflight("--mode=local").exit_code == 3


def test_the_list_names_everything_that_can_be_skipped() -> None:
    listed = _preflight("--list").stdout
    assert all(name in listed for name in ("presence", "clock", "gpu", "all GPUs answer", "swap", "same-versions"))


def test_a_dry_run_prints_the_line_and_the_checks_and_starts_nothing(asked: Asked) -> None:
    in_job = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-4]", "PATH": _path_with_srun()}
    answer = _preflight("--dry-run", "--skip=swap", "--nodes=n[2-3]", "--", "--gres=none", env=in_job)
    srun, checks = answer.stdout.splitlines()
    assert srun.startswith("srun --job-name=preflight --gres=none --nodes=2 --ntasks=2")
    assert "--nodelist=n2,n3" in srun
    assert checks == "checks: presence, clock, gpu, same-versions"
    assert not hasattr(asked, "request")


def _path_with_srun() -> str:
    import os
    import tempfile

    folder = Path(tempfile.mkdtemp())
    (folder / "srun").write_text("#!/bin/sh\n")
    (folder / "srun").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_in_a_step_the_other_tasks_leave_silently(asked: Asked) -> None:
    task = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3"}
    answer = _preflight(env=task)
    assert (answer.exit_code, answer.output) == (0, "")
    assert not hasattr(asked, "request")


def test_what_is_said_on_the_command_line_is_asked_for(tmp_path: Path, asked: Asked) -> None:
    words = ["--only=gpu", "--skip", "swap,clock", "--interface=ib0", "--python=/p", "--no-all-reduce"]
    sizes = ["--checkpoint-size=1.5GiB", "--nproc-per-node=8", "--time-limit=30"]
    _preflight("--mode=local", f"--run-dir={tmp_path}", *words, *sizes)
    assert asked.request == PreflightRequest(
        run_dir=tmp_path,
        checkpoint_bytes=3 << 29,
        ranks_per_node=8,
        interface="ib0",
        python="/p",
        all_reduce=False,
        only=("gpu",),
        skip=("swap", "clock"),
        time_limit_s=30.0,
    )


def test_a_run_that_has_a_checkpoint_says_how_large_they_are(tmp_path: Path, asked: Asked) -> None:
    tell(tmp_path, started(1), saved(10, 1, world_size=4))
    _preflight("--mode=local", env={"SLURM_RESILIENCE_RUN_DIR": str(tmp_path)})
    assert (asked.request.run_dir, asked.request.checkpoint_bytes) == (tmp_path, 4 * 1_500_000)


def test_the_help_tells_the_exit_codes() -> None:
    answer = _preflight("--help")
    assert answer.exit_code == 0
    assert "could not run" in answer.stdout
    assert module.COULD_NOT_RUN == 3
