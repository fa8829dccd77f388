"""Triage of whole runs, each with one fault or none, as they were recorded on a small Slurm with torch and gloo.

tests/failures/record.py records them anew, and says in expect.json of each what is right.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.triage import triage
from slurm_resilience.triage.account.account import Sure
from tests.failures.record_expect import Expect, false_alarm

RUNS = Path(__file__).parents[2] / "failures" / "runs"
NAMES = sorted(path.parent.name for path in RUNS.glob("*/expect.json"))
FAULTY = [name for name in NAMES if not name.startswith("healthy-")]
HEALTHY = [name for name in NAMES if name.startswith("healthy-")]
MISSED: dict[str, str] = {}
"""Where triage is wrong still, and why."""
MISSED_ALONE: dict[str, str] = {}
"""Where the outputs alone, of a run that srun-resilient ran, can't tell it, and why."""
RIGHT_SHARE, RIGHT_SHARE_ALONE = 0.95, 0.90
LAST_WORD = re.compile(
    r"^srun-resilient: (?:attempt \d+ ended|the run is finished|the supervisor of).*\n?", re.MULTILINE
)
"""What srun-resilient says of an end: the last line of an output, and the first that is missing where one is cut."""


@dataclass(frozen=True)
class Recorded:
    folder: Path
    expect: Expect | None
    files_only: bool

    @classmethod
    def laid_out(cls, name: str, where: Path) -> Recorded:
        """A copy whose files have the times that they had."""
        folder = where / name
        shutil.copytree(RUNS / name, folder)
        about = json.loads((folder / "expect.json").read_text())
        for file, time_s in json.loads((folder / "times.json").read_text()).items():
            os.utime(folder / file, (time_s, time_s))
        for ours in ("expect.json", "times.json"):
            (folder / ours).unlink()
        expect = None if about["expect"] is None else Expect(**about["expect"])
        return cls(folder, expect, about["files_only"])

    @property
    def outputs(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name != "run")

    @property
    def run_by_us(self) -> bool:
        return (self.folder / "run").exists()

    @property
    def run(self) -> Path | None:
        run = self.folder / "run"
        return run if run.exists() and not self.files_only else None


def told(*paths: Path, attempt: int | None = None) -> dict[str, Any]:
    """Without Slurm: nobody can ask for a job of yesterday's cluster."""
    which = [] if attempt is None else [f"--attempt={attempt}"]
    answer = CliRunner().invoke(triage, ["--json", "--no-slurm", *which, *map(str, paths)], catch_exceptions=False)
    assert answer.exit_code in (0, 1), answer.output
    account: dict[str, Any] = json.loads(answer.stdout)
    return account


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.xfail(reason=MISSED[name]) if name in MISSED else ()) for name in FAULTY],
)
def test_triage_names_cause_first_rank_and_node_of_a_run_that_failed(name: str, tmp_path: Path) -> None:
    recorded = Recorded.laid_out(name, tmp_path)
    assert recorded.expect is not None
    paths = recorded.outputs if recorded.run is None else [recorded.run]
    assert recorded.expect.differences(told(*paths, attempt=recorded.expect.attempt)) == []


@pytest.mark.parametrize("name", HEALTHY)
def test_a_run_in_which_nothing_failed_is_blamed_for_nothing(name: str, tmp_path: Path) -> None:
    recorded = Recorded.laid_out(name, tmp_path)
    assert false_alarm(told(*recorded.outputs)) == []
    if recorded.run is not None:
        assert false_alarm(told(recorded.run)) == []


RUN_BY_US = [name for name in NAMES if (RUNS / name / "run").exists()]


def told_alone(name: str, where: Path, *, cut: bool = False) -> tuple[Recorded, dict[str, Any]]:
    """By the outputs, without the run's directory; `cut`: without the supervisor's last words either."""
    recorded = Recorded.laid_out(name, where)
    for path in recorded.outputs if cut else ():
        status = path.stat()
        path.write_bytes(LAST_WORD.sub("", path.read_text(errors="surrogateescape")).encode(errors="surrogateescape"))
        os.utime(path, (status.st_atime, status.st_mtime))
    attempt = None if recorded.expect is None else recorded.expect.attempt
    return recorded, told(*recorded.outputs, attempt=attempt)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=MISSED_ALONE[name]) if name in MISSED_ALONE else ())
        for name in RUN_BY_US
    ],
)
def test_the_outputs_alone_of_a_run_of_ours_tell_cause_first_rank_and_node(name: str, tmp_path: Path) -> None:
    recorded, account = told_alone(name, tmp_path)
    wrong = false_alarm(account) if recorded.expect is None else recorded.expect.differences(account)
    assert wrong == []


@pytest.mark.parametrize("name", RUN_BY_US)
def test_outputs_without_the_supervisors_last_word_make_nobody_sure_of_what_is_wrong(name: str, tmp_path: Path) -> None:
    recorded, account = told_alone(name, tmp_path, cut=True)
    if recorded.expect is None:
        assert false_alarm(account) == []
    elif recorded.expect.differences(account):
        assert account["sure"] == Sure.GUESS.value


def test_nearly_all_of_the_runs_of_ours_are_told_right_by_their_outputs_alone() -> None:
    assert len(RUN_BY_US) >= 40
    assert len(MISSED_ALONE) <= (1 - RIGHT_SHARE_ALONE) * len([name for name in RUN_BY_US if name in FAULTY])


def test_nearly_all_of_the_recorded_runs_are_told_right() -> None:
    assert len(HEALTHY) >= 20
    assert len(MISSED) <= (1 - RIGHT_SHARE) * len(FAULTY)
