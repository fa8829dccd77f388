"""srun-resilient's command line: whose option is whose, and what a mistake looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_resilience.cli import srun_resilient
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.request import ContinueBy, OnPreflight, Preflighting, Request
from tests.unit.cli.told_runs import started, tell

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The only thing it said."""
        [line] = self.err.splitlines()
        assert self.out == ""
        return line


Main = Callable[..., Said]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Main:
    """The console script, in a folder of its own where there is no Slurm."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("shutil.which", lambda _: None)

    def run(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["srun-resilient", *words])
        code: object = 0
        try:
            srun_resilient.main()
        except SystemExit as left:
            code = left.code
        out, err = capfd.readouterr()
        return Said(int(str(code or 0)), out, err)

    return run


@pytest.fixture
def request_for(main: Main, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Request]:
    """What the supervisor would be asked for."""
    asked: list[Request] = []

    class Nobody:
        def supervise(self) -> int:
            return 0

        def describe(self) -> list[str]:
            return []

    def supervisor_for(request: Request, *_: object, **__: object) -> Nobody:
        asked.append(request)
        return Nobody()

    monkeypatch.setattr("slurm_resilience.supervisor.choice.supervisor_for", supervisor_for)

    def ask(*words: str) -> Request:
        said = main(*words)
        assert (said.code, said.err) == (0, "")
        return asked[-1]

    return ask


def test_our_options_may_stand_before_between_and_behind_sruns(request_for: Callable[..., Request]) -> None:
    wanted = request_for(
        "--run-dir=/r", "-N2", "--nproc-per-node", "4", "--mem=0", "--max-crashes=7", "torchrun", "t.py"
    )
    assert wanted.run_dir == Path("/r")
    assert wanted.nproc_per_node == "4"
    assert wanted.limits.crashes == 7
    assert wanted.srun.words_without() == ["-N2", "--mem=0"]
    assert wanted.words == ("torchrun", "t.py")


def test_an_option_behind_the_command_belongs_to_the_command(request_for: Callable[..., Request]) -> None:
    wanted = request_for("-n1", "python", "t.py", "--run-dir=/theirs", "--dry-run")
    assert wanted.run_dir is None
    assert not wanted.dry_run
    assert wanted.words == ("python", "t.py", "--run-dir=/theirs", "--dry-run")


@pytest.mark.parametrize("word", ["--help", "-h", "-V", "--version"])
def test_a_commands_own_help_is_not_ours(request_for: Callable[..., Request], word: str) -> None:
    assert request_for("python", "t.py", word).words == ("python", "t.py", word)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["-N2", "--help"], ["--help", "python", "t.py"]])
def test_our_help_is_found_wherever_our_options_may_stand(main: Main, words: list[str]) -> None:
    said = main(*words)
    assert said.code == 0
    assert said.out.startswith("Usage: srun-resilient")
    assert said.err == ""


def test_the_version_is_told(main: Main) -> None:
    assert main("--version").out.startswith("srun-resilient ")


def test_dashes_end_the_options(request_for: Callable[..., Request]) -> None:
    wanted = request_for("--plain", "-n2", "--", "./a.out", "-x")
    assert wanted.command.kind is CommandKind.TASK
    assert wanted.words == ("./a.out", "-x")


def test_a_signal_may_be_named_as_one_likes(request_for: Callable[..., Request]) -> None:
    names = [request_for(f"--forward-signal={text}", "t").forward_signal for text in ("USR1", "SIGUSR1", "usr1")]
    assert names == ["USR1"] * 3


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ([], "there is no command to run"),
        (["-N2"], "there is no command to run"),
        (["-N"], "option -N wants a value"),
        (["--run-dir"], "option --run-dir wants a value"),
        (["--forward-signal=HELLO", "t"], "--forward-signal=HELLO: there is no such signal"),
        (["--forward-signal=KILL", "t"], "--forward-signal=KILL"),
        (["--mode=somehow", "t"], "'somehow' is not one of"),
        (["--max-crashes=0", "t"], "0 is not in the range"),
        (["--stop-timeout=soon", "t"], "'soon' is not a valid float"),
        (["torchrun", "--max-restarts=3", "t.py"], "--max-restarts hides crashes"),
        (["torchrun", "--max-restarts=many", "t.py"], "--max-restarts=many: not a number"),
        (["torchrun"], "no script to run"),
        (["--nproc-per-node=lots", "python", "t.py"], "--nproc-per-node=lots"),
        (["--nproc-per-node=0", "python", "t.py"], "--nproc-per-node=0"),
        (["--mode=slurm", "t"], "there is no srun on PATH"),
    ],
)
def test_a_mistake_is_one_sentence_and_starts_nothing(main: Main, words: list[str], about: str, tmp_path: Path) -> None:
    said = main(*words)
    assert said.code == 78
    assert said.sentence.startswith("srun-resilient: ")
    assert about in said.sentence
    assert list(tmp_path.iterdir()) == []


def test_inside_a_step_it_is_refused_but_for_local_mode(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    refused = main("true")
    assert refused.code == 78
    assert "inside step 7.0" in refused.sentence
    assert main("--mode=local", "--run-dir=r", "true").code == 0  # an interactive `srun --pty bash`


def test_a_command_without_slurm_runs_here_and_once(main: Main, tmp_path: Path) -> None:
    said = main("--run-dir=r", "touch", "there")
    assert said.code == 0, said.err
    assert (tmp_path / "there").exists()
    again = main("--run-dir=r", "touch", "there")
    assert (again.code, again.sentence) == (0, f"srun-resilient: run {tmp_path / 'r'} is finished: nothing to do")


def test_a_command_that_always_crashes_is_started_again_and_given_up(main: Main, tmp_path: Path) -> None:
    assert main("--run-dir=r", "--max-stuck=3", "false").code == 76
    attempts = Chain.of(Journal(RunDirectory(tmp_path / "r")).read()).attempts
    assert [attempt.ended.cause for attempt in attempts if attempt.ended is not None] == [Cause.CRASHED] * 3


def test_another_command_in_the_same_default_directory_is_refused(main: Main, tmp_path: Path) -> None:
    tell(tmp_path / "runs" / "bash", started(1))
    said = main("bash", "-c", "exit 0")
    assert said.code == 78
    assert "was begun by another command (torchrun train.py): name this one's directory with --run-dir" in said.sentence


def test_a_file_where_the_run_was_to_be_is_named(main: Main, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file", "file/run"):
        said = main(f"--run-dir={path}", "true")
        assert said.code == 78, said.err
        assert str(tmp_path / "file") in said.sentence


def test_a_dry_run_writes_nothing(main: Main, tmp_path: Path) -> None:
    said = main("--dry-run", "--run-dir=r", "python", "t.py")
    assert said.code == 0, said.err
    assert f"run directory: {tmp_path}/r, attempt 1, mode local" in said.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["read-only", "closed"])
def test_a_folder_that_takes_no_run_is_one_sentence(tmp_path: Path, mode: int) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(mode)
    script = (
        "import os, sys\n"
        "from slurm_resilience.cli import srun_resilient\n"
        "import slurm_resilience.supervisor.supervise, slurm_resilience.slurm.command_line, click\n"
        "os.chdir(sys.argv.pop(1))\n"
        "if os.geteuid() == 0:\n"  # what we imported we may read no more
        "    os.setresuid(65534, 65534, 65534)\n"
        "srun_resilient.main()\n"
    )
    for folder in tmp_path.parents:
        if folder.name.startswith("pytest-"):
            folder.chmod(0o711)
    tmp_path.chmod(0o711)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), "--mode=local", "--run-dir=closed/run", "true"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        timeout=100,
    )
    closed.chmod(0o700)
    assert done.returncode == 78, done.stderr
    [sentence] = done.stderr.splitlines()
    assert f"{tmp_path}/closed/run" in sentence
    assert "Permission denied" in sentence


FROM_THE_ENVIRONMENT = {
    "SLURM_RESILIENCE_CONTINUE": "chain",
    "SLURM_RESILIENCE_RUN_DIR": "/theirs",
    "SLURM_RESILIENCE_STOP_BEFORE_END": "90",
}


def test_the_environment_has_defaults_and_the_command_line_wins(
    request_for: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FROM_THE_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    wanted = request_for("t")
    assert wanted.continue_by is ContinueBy.CHAIN
    assert (wanted.run_dir, wanted.asked.stop_before_end_s) == (Path("/theirs"), 90.0)
    wanted = request_for("--continue=requeue", "--run-dir=/r", "--stop-before-end=0", "t")
    assert wanted.continue_by is ContinueBy.REQUEUE
    assert (wanted.run_dir, wanted.asked.stop_before_end_s) == (Path("/r"), 0.0)


def test_an_empty_variable_says_nothing(request_for: Callable[..., Request], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FROM_THE_ENVIRONMENT:
        monkeypatch.setenv(name, "")
    wanted = request_for("t")
    assert wanted.continue_by is ContinueBy.REQUEUE
    assert (wanted.run_dir, wanted.asked.stop_before_end_s) == (None, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SLURM_RESILIENCE_CONTINUE", "yes"),
        ("SLURM_RESILIENCE_CONTINUE", "chain"),  # outside of a batch script
        ("SLURM_RESILIENCE_RUN_DIR", "a\nb"),
        ("SLURM_RESILIENCE_STOP_BEFORE_END", "soon"),
        ("SLURM_RESILIENCE_STOP_BEFORE_END", "-1"),
        ("SLURM_RESILIENCE_STOP_BEFORE_END", "nan"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(
    main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    said = main("true")
    assert said.code == 78
    assert name in said.sentence
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_nobody_reads_is_not_looked_at(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_RESILIENCE_CONTINUE", "yes")
    monkeypatch.setenv("SLURM_RESILIENCE_STOP_BEFORE_END", "soon")
    assert main("--continue=requeue", "--stop-before-end=5", "--run-dir=r", "true").code == 0


def test_the_help_names_the_variables(main: Main) -> None:
    said = main("--help").out
    assert all(f"${name}" in said for name in FROM_THE_ENVIRONMENT)


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        ([], {}, None),
        ([], {"PREFLIGHT": "0"}, None),
        ([], {"PREFLIGHT": "1"}, Preflighting(OnPreflight.EXCLUDE, 60.0)),
        ([], {"PREFLIGHT": "yes", "ON_PREFLIGHT": "stop"}, Preflighting(OnPreflight.STOP, 60.0)),
        (["--preflight"], {}, Preflighting(OnPreflight.EXCLUDE, 60.0)),
        (["--preflight"], {"PREFLIGHT": "0"}, Preflighting(OnPreflight.EXCLUDE, 60.0)),
        (
            ["--preflight", "--on-preflight=warn", "--preflight-time-limit=20", "--preflight-skip=load,storage-speed"],
            {"ON_PREFLIGHT": "stop", "PREFLIGHT_SKIP": "gpu"},
            Preflighting(OnPreflight.WARN, 20.0, ("load", "storage-speed")),
        ),
        (["--preflight"], {"PREFLIGHT_SKIP": "gpu power"}, Preflighting(OnPreflight.EXCLUDE, 60.0, ("gpu", "power"))),
    ],
)
def test_preflight_is_asked_for_by_an_option_or_by_the_environment(
    request_for: Callable[..., Request],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    environment: dict[str, str],
    expected: Preflighting | None,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"SLURM_RESILIENCE_{name}", value)
    assert request_for(*words, "python", "t.py").preflight == expected


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        (["--on-preflight=stop"], {}, "srun-resilient: --on-preflight=stop: there is no --preflight"),
        (["--preflight-skip=gpu"], {}, "srun-resilient: --preflight-skip=gpu: there is no --preflight"),
        ([], {"PREFLIGHT": "maybe"}, "the environment variable SLURM_RESILIENCE_PREFLIGHT is 'maybe': say 1 or 0"),
        (["--preflight"], {"ON_PREFLIGHT": "dance"}, "ON_PREFLIGHT is 'dance': say exclude, stop, warn"),
        (["--preflight", "--preflight-time-limit=1"], {}, "'--preflight-time-limit'"),
    ],
)
def test_a_preflight_that_cannot_be_understood_is_refused_before_anything_starts(
    main: Main, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: dict[str, str], sentence: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"SLURM_RESILIENCE_{name}", value)
    said = main(*words, "--mode=local", "python", "t.py")
    assert said.code == 78
    assert sentence in said.sentence


def test_a_dry_run_says_how_preflight_would_be_run(main: Main) -> None:
    said = main("--dry-run", "--mode=local", "--preflight", "--interface=eth0", "--nproc-per-node=2", "python", "t.py")
    [line] = [line for line in said.out.splitlines() if line.startswith("before every step")]
    assert line.startswith("before every step (--on-preflight=exclude): ")
    assert "preflight --json" in line
    assert line.endswith("--time-limit=60 --mode=local --interface=eth0 --nproc-per-node=2")
