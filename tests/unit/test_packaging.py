"""What `pip install slurm-resilience` brings, and what it must never bring."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)

CHECKOUT = Path(__file__).parents[2]
HEAVY = ("torch", "h5py", "numpy", "xxhash", "scikit-learn", "pyslurm")


@pytest.fixture(scope="module")
def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(CHECKOUT / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves its build folder and egg-info where it works."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("slurm_resilience", "sbatch_templates", "examples", "tests"):
        ignore = shutil.ignore_patterns("__pycache__", "recorded")
        shutil.copytree(CHECKOUT / folder, source / folder, symlinks=True, ignore=ignore)
    for file in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, source)
    out = tmp_path_factory.mktemp("wheel")
    # The back end itself, in our own interpreter: the test neither needs nor takes anything from a registry.
    build = "import sys; from setuptools import build_meta as back_end; back_end.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(out)], cwd=source, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what pip would unpack, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def ask(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`slurm-resilience ARGUMENTS` from the unpacked wheel, in a folder that is not the checkout."""
    start = f"import sys; sys.path.insert(0, {str(installed)!r}); from slurm_resilience.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", start, *arguments],
        cwd=installed,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_installing_us_never_drags_in_a_second_torch(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(metadata).decode().splitlines()
    needs = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    always = {re.split(r"[^\w.-]", need)[0].lower() for need in needs if "extra ==" not in need}
    assert always == {"click", "filelock", "clustershell", "psutil", "rich"}
    assert not always & set(HEAVY)


def test_nothing_that_users_install_is_pinned(setup_cfg: configparser.ConfigParser) -> None:
    needs = setup_cfg["options"]["install_requires"] + "".join(setup_cfg["options.extras_require"].values())
    assert "==" not in needs
    assert "<" not in needs


def test_nothing_is_installed_that_no_module_imports(setup_cfg: configparser.ConfigParser) -> None:
    needs = re.findall(r"^([\w-]+)>=", setup_cfg["options"]["install_requires"], re.MULTILINE)
    assert len(needs) > 2
    sources = "\n".join(path.read_text() for path in (CHECKOUT / "slurm_resilience").rglob("*.py"))
    assert [need for need in needs if not re.search(rf"^\s*(from|import) {need}\b", sources, re.MULTILINE)] == []


def test_both_programs_come_with_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(entry_points).decode()
    assert "slurm-resilience = slurm_resilience.cli.main:main" in text
    assert "srun-resilient = slurm_resilience.cli.srun_resilient:main" in text


def test_the_wheel_holds_every_template_and_example_as_a_real_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in ("sbatch_templates", "examples"):
        for path in (CHECKOUT / folder).rglob("*"):
            if path.suffix in (".sbatch", ".py", ".md"):
                assert f"slurm_resilience/{path.relative_to(CHECKOUT)}" in names


def test_the_wheel_holds_nothing_that_is_not_for_users(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        strangers = {name.split("/")[0] for name in archive.namelist()} - {"slurm_resilience"}
    assert all(name.endswith(".dist-info") for name in strangers), strangers


def test_the_licence_and_the_types_are_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "slurm_resilience/py.typed" in names
    assert [name for name in names if name.endswith("LICENSE")]


def test_templates_are_printed_from_an_installed_wheel_too(installed: Path) -> None:
    done = ask(installed, "template", "preemptible")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (CHECKOUT / "sbatch_templates" / "preemptible.sbatch").read_text()


def test_the_installed_wheel_knows_its_version(installed: Path, wheel: Path) -> None:
    done = ask(installed, "--version")
    assert done.stdout == f"slurm-resilience {wheel.name.split('-')[1]}\n"


def test_every_python_version_we_name_is_one_we_accept(setup_cfg: configparser.ConfigParser) -> None:
    named = re.findall(r"Python :: (3\.\d+)", setup_cfg["metadata"]["classifiers"])
    assert named == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert setup_cfg["options"]["python_requires"] == ">=3.10"
