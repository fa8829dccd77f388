"""Nothing needs root: the whole way on a cluster that belongs to somebody else."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.sandbox.process import processes_with

ROOT = Path(__file__).parents[2]
NEEDED = ("click", "filelock", "ClusterShell")


def ordinary_user() -> pwd.struct_passwd:
    """Ourselves, unless we are root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def run_as(user: pwd.struct_passwd, argv: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(folder / "lib")}
    root = os.geteuid() == 0
    return subprocess.run(
        argv,
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        user=user.pw_uid if root else None,
        group=user.pw_gid if root else None,
        extra_groups=[] if root else None,
    )


def can_run(python: str, user: pwd.struct_passwd, folder: Path) -> bool:
    try:
        return run_as(user, [python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"], folder).returncode == 0
    except OSError:
        return False


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of that user, with a package of theirs in it: our own may lie where only root may look."""
    user = ordinary_user()
    found = Path(tempfile.mkdtemp(prefix="ou-", dir="/tmp"))  # where everybody may pass
    library = found / "lib"
    shutil.copytree(
        ROOT / "slurm_resilience",
        library / "slurm_resilience",
        ignore=shutil.ignore_patterns("__pycache__", "examples", "sbatch_templates"),
    )
    for name in ("jobs.py", "ordinary_user.py"):
        target = library / "tests" / "slurm" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / "slurm" / name, target)
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, library / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (found, *found.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    yield found
    shutil.rmtree(found)


def test_an_ordinary_users_job_is_preempted_queued_again_and_finished_on_their_own_cluster(folder: Path) -> None:
    user = ordinary_user()
    pythons = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    python = next((python for python in pythons if can_run(python, user, folder)), None)
    assert python is not None, f"{user.pw_name} can run none of {', '.join(pythons)}"
    done = run_as(user, [python, "-m", "tests.slurm.ordinary_user", str(folder)], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    chain = Chain.of(Journal(RunDirectory(folder / "run")).read())
    assert chain.finished
    causes = [attempt.ended.cause for attempt in chain.attempts if attempt.ended is not None]
    assert causes == [Cause.PREEMPTED, Cause.FINISHED]
    assert (folder / "heard").read_text().splitlines() == ["heard", "heard"]
    assert list(processes_with(lambda _, environment: str(folder) in environment.get("PYTHONPATH", ""))) == []
