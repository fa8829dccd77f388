"""The probe's job step: what is run, and what its answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut
from slurm_resilience.spank.arguments import Arguments
from slurm_resilience.spank.finding import Level
from slurm_resilience.spank.probe import (
    Probed,
    judge_probe,
    probe_command,
    probe_environment,
    read_probe,
)
from slurm_resilience.spank.probing import probe
from tests.unit.spank.in_order import IN_ORDER

STEP = {"code": 0, "complaint": "no message", "job": "7", "step": "0", "node": "n1", "asked": True}
NOTE = '{"job":"7","restart":0,"step":0,"node":"n1","rank":0,"pid":1,"status":0,"time":1.5}\n'


@pytest.mark.parametrize(
    ("more", "relay_expected", "level", "words"),
    [
        ({"relay": "/dev/shm/x", "folder": True, "exit_note": True}, True, Level.FINE, "it left its exit note"),
        ({"relay": "/dev/shm/x", "folder": True}, True, Level.FINE, "lies on that node"),
        ({"relay": "/dev/shm/x", "folder": True, "exit_note": False}, True, Level.FINE, "missing"),
        ({}, True, Level.WRONG, "n1 has not loaded the plugin, or its relay did not start"),
        ({"relay": "/dev/shm/x"}, True, Level.WRONG, "had no relay"),
        ({"exit_note": True}, True, Level.WRONG, "but no relay"),
        ({"exit_note": True}, False, Level.FINE, "left its exit note"),
        ({}, False, Level.UNKNOWN, "can't be seen"),
        ({"asked": False}, False, Level.WRONG, "was not told"),
        ({"code": 1, "complaint": "no nodes"}, True, Level.WRONG, "srun left with 1: no nodes"),
        ({"job": None}, True, Level.WRONG, "did not run"),
    ],
)
def test_a_probe_means(more: Mapping[str, object], relay_expected: bool, level: Level, words: str) -> None:
    probed = Probed(**{**STEP, **more})  # type: ignore[arg-type]
    finding = judge_probe(probed, relay_expected=relay_expected)
    assert finding.level is level
    assert words in finding.sentence


def test_the_script_prints_what_is_read_from_it(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    env = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n1", "PATH": "/usr/bin:/bin"}
    env |= {"SLURM_RESILIENCE_CONTINUE": "requeue", "SLURM_RESILIENCE_RELAY": str(tmp_path)}
    argv = probe_command("name", inside_a_job=False)
    done = run(argv[argv.index("/bin/sh") :], timeout_s=60, env=env)
    assert read_probe(done.code, f"noise\n{done.out}noise=1\n", "") == Probed(
        0, "no message", job="7", step="0", node="n1", asked=True, relay=str(tmp_path), folder=True
    )


def test_the_script_says_so_where_there_is_no_plugin() -> None:
    argv = probe_command("name", inside_a_job=False)
    done = run(argv[argv.index("/bin/sh") :], timeout_s=60, env={"SLURM_JOB_ID": "7", "PATH": "/usr/bin:/bin"})
    probed = read_probe(done.code, done.out, "srun: one\nsrun: two\n")
    assert probed == Probed(0, "srun: two", job="7")


def test_a_probe_inside_a_job_shares_its_resources_and_outside_gives_up_by_itself() -> None:
    assert "--overlap" in probe_command("name", inside_a_job=True)
    assert "--immediate=50" in probe_command("name", inside_a_job=False)


def test_nothing_of_an_earlier_step_comes_along() -> None:
    kept = {"PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_CONF": "/c"}
    left = {
        "SLURM_RESILIENCE_ATTEMPT": "3",
        "SLURM_RESILIENCE_RELAY": "/x",
        "_SLURM_SPANK_OPTION_resilience_resilient": "",
    }
    assert probe_environment({**kept, **left}) == kept


class Srun:
    """Stands for every command; what it was asked is kept."""

    def __init__(self, answer: Completed | Exception) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str]) -> Completed:
        self.asked.append(list(argv))
        if isinstance(self.answer, Exception) and argv[0] == "srun":
            raise self.answer
        return self.answer if isinstance(self.answer, Completed) else Completed(tuple(argv), 0, "", "")


def answer(**variables: str) -> Completed:
    out = "".join(f"slurm-resilience-probe {name}={value}\n" for name, value in variables.items())
    return Completed(("srun",), 0, out, "")


def test_what_will_be_done_is_said_before_it_is_done() -> None:
    srun, said = Srun(answer(SLURM_JOB_ID="7")), []

    def say(line: str) -> None:
        assert srun.asked == []
        said.append(line)

    probe(IN_ORDER, Arguments(), {}, say=say, runner=srun)
    assert "srun" in said[0]
    assert "60 s" in said[0]


def test_a_step_that_hangs_is_cancelled_by_its_own_name() -> None:
    srun = Srun(CommandTimedOut("too long"))
    finding = probe(IN_ORDER, Arguments(), {}, say=lambda _: None, runner=srun)
    assert finding.level is Level.WRONG
    (asked, cancelled) = srun.asked
    name = next(word for word in asked if word.startswith("--job-name="))
    assert cancelled == ["scancel", name.replace("--job-name", "--name")]


def test_no_srun_is_one_sentence() -> None:
    srun = Srun(CommandMissing("there is no program 'srun' here"))
    finding = probe(IN_ORDER, Arguments(), {}, say=lambda _: None, runner=srun)
    assert finding.sentence == "there is no program 'srun' here"


def test_the_exit_note_is_found_in_a_spool_that_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "7.7-0.1000.jsonl").write_text("torn {\n" + NOTE)
    srun = Srun(answer(SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURMD_NODENAME="n1", SLURM_RESILIENCE_CONTINUE="requeue"))
    arguments = Arguments(spool=f"{tmp_path}/%n", relay=None)
    finding = probe(IN_ORDER, arguments, {}, say=lambda _: None, runner=srun)
    assert (finding.level, "exit note" in finding.sentence) == (Level.FINE, True)


def test_another_steps_note_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "7.7-0.1000.jsonl").write_text(NOTE)
    srun = Srun(answer(SLURM_JOB_ID="7", SLURM_STEP_ID="1", SLURMD_NODENAME="n2", SLURM_RESILIENCE_CONTINUE="requeue"))
    finding = probe(IN_ORDER, Arguments(spool=str(tmp_path), relay=None), {}, say=lambda _: None, runner=srun)
    assert finding.level is Level.UNKNOWN
