"""The contracts of setup.cfg hold, they bite, and what they are for is true: a light command line and supervisor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.cli.main import COMMANDS

pytestmark = pytest.mark.timeout(300)

CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "slurm_resilience"
HEAVY = {"torch", "h5py", "numpy", "rich", "sklearn", "ClusterShell", "psutil", "importlib.metadata"}
TRAINING_LIBRARIES = {"torch", "h5py", "numpy", "sklearn"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    start = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as main; main()"
    return subprocess.run(
        [sys.executable, "-c", start, "--no-cache", "--config", "setup.cfg"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package with its contracts, to be spoilt."""
    shutil.copytree(
        PACKAGE, tmp_path / "slurm_resilience", ignore=shutil.ignore_patterns("__pycache__", "examples", "sbatch_*")
    )
    shutil.copy(CHECKOUT / "setup.cfg", tmp_path)
    return tmp_path


def loaded_by(statement: str, *, meant: set[str]) -> set[str]:
    """Which of the modules `meant` a fresh interpreter has loaded after `statement`."""
    program = f"import sys\n{statement}\nprint(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    return meant & set(done.stdout.split())


def test_every_arrow_points_down() -> None:
    done = lint_imports(CHECKOUT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        pytest.param("signals/stop_request.py", "import time", "Pure", id="a pure module asks for the time"),
        pytest.param("requeue/decision.py", "import subprocess", "Pure", id="a decision acts"),
        pytest.param("manifest/records.py", "import slurm_resilience.cli", "Layers", id="an arrow points up"),
        pytest.param("launch/plan.py", "import torch", "Light", id="the launcher loads torch"),
        pytest.param("training/__init__.py", "import slurm_resilience.slurm", "Ranks", id="a rank talks to Slurm"),
        pytest.param("helpers.py", "", "Layers", id="a drawer for everything"),
    ],
)
def test_the_contracts_bite_when(file: str, line: str, contract: str, copy: Path) -> None:
    target = copy / "slurm_resilience" / file
    before = target.read_text() if target.exists() else ""
    target.write_text(f"{before}\n{line}\n")
    done = lint_imports(copy)
    assert done.returncode != 0
    assert f"{contract}:" in " ".join(line for line in done.stdout.splitlines() if "BROKEN" in line)


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "helper", "common", "misc"])
def test_no_module_is_a_drawer_for_everything(name: str) -> None:
    assert not list(PACKAGE.rglob(f"{name}.py"))


def test_the_command_line_starts_with_nothing_heavy() -> None:
    assert loaded_by("import slurm_resilience.cli.main", meant=HEAVY) == set()


def test_help_imports_no_command() -> None:
    statement = (
        "import slurm_resilience.cli.main as m\n"
        "from click.testing import CliRunner\n"
        "assert CliRunner().invoke(m.cli, ['--help']).exit_code == 0"
    )
    commands = {f"slurm_resilience.cli.{command.module}" for command in COMMANDS.values()}
    assert loaded_by(statement, meant=commands) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_is_listed_exists_and_loads_nothing_heavy(name: str) -> None:
    command = COMMANDS[name]
    module = f"slurm_resilience.cli.{command.module}"
    statement = f"import click, {module} as m\nassert isinstance(m.{command.attribute}, click.Command)"
    assert loaded_by(statement, meant=HEAVY) == set()


@pytest.mark.parametrize(
    "package", ["supervisor", "agent", "launch", "requeue", "triage", "manifest", "signals", "slurm"]
)
def test_what_must_survive_a_broken_cuda_library_never_loads_torch(package: str) -> None:
    modules = [
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        for path in (PACKAGE / package).rglob("*.py")
        if path.name != "__main__.py"
    ]
    statement = "\n".join(f"import {module.removesuffix('.__init__')}" for module in modules)
    assert loaded_by(statement, meant=TRAINING_LIBRARIES) == set()
