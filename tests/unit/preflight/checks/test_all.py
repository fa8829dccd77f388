"""All checks together: as a table, on this machine, and in a hurry."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.preflight.check import Check, Context
from slurm_resilience.preflight.checks import CHECKS
from slurm_resilience.preflight.result import Outcome
from tests.unit.preflight.checks.scene import Told, complete

REPOSITORY = Path(__file__).parents[4]
BY_NAME = pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])


def test_names_are_told_once_and_can_be_typed():
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in names)


def test_what_hangs_by_a_dead_mount_is_a_failure_and_what_measures_runs_alone():
    assert {check.name for check in CHECKS if check.hung is Outcome.FAIL} == {
        "gpu",
        "temporary",
        "storage",
        "storage-space",
    }
    assert [check.name for check in CHECKS if check.alone] == ["storage-speed"]


@BY_NAME
def test_on_this_machine_each_check_comes_to_an_end_and_fails_nothing_that_is_healthy(check: Check, tmp_path: Path):
    """Warnings are this machine's business: it may be busy, or without a clock that anybody keeps."""
    module, name = check.function.split(":")
    told = Told()
    context = Context(
        node="n1",
        environment={**os.environ, "TMPDIR": str(tmp_path)},
        run_dir=tmp_path / "scratch" / "run",
        checkpoint_bytes=1 << 20,
        ranks_per_node=1,
    )

    found = list(getattr(importlib.import_module(module), name)(context, told))

    assert found
    for each in found:
        complete(each)
        assert each.outcome is not Outcome.FAIL, each.sentence
        json.dumps(dict(each.measured))  # it travels
    assert list(tmp_path.iterdir()) == []


@BY_NAME
def test_on_a_machine_that_shows_nothing_each_check_says_so(check: Check, tmp_path: Path):
    """An empty /proc and /sys: as in a container that hides them. Never an exception."""
    module, name = check.function.split(":")
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    found = list(getattr(importlib.import_module(module), name)(Context("n1", environment, root=tmp_path), Told()))
    assert found
    for each in found:
        complete(each)


def test_no_check_asks_slurms_controller_for_it_may_hang_and_a_thousand_nodes_would_ask():  # mej/nhc#159
    from slurm_resilience.preflight import checks

    asking = re.compile(r"""\["'](scontrol|squeue|sinfo|sacct)["']""")
    folder = Path(checks.__file__).parent
    assert not [path for path in folder.rglob("*.py") if asking.search(path.read_text())]


def test_the_table_of_checks_is_light():
    program = """
import sys
from slurm_resilience.preflight.checks import CHECKS
heavy = {"torch", "numpy", "h5py", "pynvml", "psutil", "subprocess", "click", "rich"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True, timeout=100)


def test_no_check_loads_torch():
    modules = ", ".join(sorted({check.function.split(":")[0] for check in CHECKS}))
    program = f"import sys, {modules}\nheavy = {{'torch', 'numpy', 'h5py'}} & set(sys.modules)\nassert not heavy, heavy"
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True, timeout=100)


def test_each_check_stands_in_the_documentation():
    text = (REPOSITORY / "docs" / "preflight_checks.md").read_text()
    assert [check.name for check in CHECKS if f"| `{check.name}` |" not in text] == []
