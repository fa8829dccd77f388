"""PySlurmClient's child, with a module of one line in pyslurm's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmUnavailable
from slurm_resilience.slurm.client import JobRef
from slurm_resilience.slurm.pyslurm_client import PySlurmClient
from tests.faults.fake_slurm import FakeSlurm, running

SEVEN = JobRef("7")
REPOSITORY = Path(__file__).parents[3]


def module_that(folder: Path, does: str) -> dict[str, str]:
    """The environment in which `import pyslurm` does that."""
    (folder / "pyslurm.py").write_text(does)
    return dict(os.environ) | {"PYTHONPATH": f"{folder}:{REPOSITORY}"}


@pytest.mark.parametrize(
    "loading",
    [
        "raise ImportError('job.so: undefined symbol: slurm_expand_step_stdio_fields')",
        "raise OSError('libslurmfull.so: cannot open shared object file')",
        "raise RuntimeError('Slurm version mismatch')",
    ],
)
def test_a_pyslurm_that_does_not_load_is_no_loss(tmp_path: Path, loading: str) -> None:
    said: list[str] = []
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, environment=module_that(tmp_path, loading), say=said.append)
    client.requeue(SEVEN)
    assert commands.requeued == ["7"]
    assert client.job(SEVEN) == commands.jobs["7"]
    assert len(said) == 1
    assert loading.split("'")[1] in said[0]


@pytest.mark.parametrize(
    "loading",
    [
        "import os; os._exit(1)",  # libslurm's fatal()
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",  # a crash
        "print('pyslurm answers: ', flush=True); import os; os._exit(3)",
    ],
)
def test_a_pyslurm_that_ends_its_process_does_not_end_ours(tmp_path: Path, loading: str) -> None:
    said: list[str] = []
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, environment=module_that(tmp_path, loading), say=said.append)
    with pytest.raises(SlurmUnavailable):
        client.job(SEVEN)
    assert client.job(SEVEN) == commands.jobs["7"]
    assert len(said) == 1


def test_a_pyslurm_that_never_returns_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    environment = module_that(tmp_path, "while True: pass")
    client = PySlurmClient(FakeSlurm({"7": running()}), environment=environment, say=said.append, timeout_s=0.5)
    with pytest.raises(SlurmUnavailable, match=r"within 0\.5 s"):
        client.job(SEVEN)


def test_a_childs_answer_is_found_among_the_words_of_libslurm(tmp_path: Path) -> None:
    module = """
print("slurm: a word on the same terminal")
class RPCError(Exception): pass
class Job:
    def __init__(self, number): self.number = number
    def requeue(self, hold=False): print("requeued", self.number)
"""
    commands = FakeSlurm({"7": running()})
    client = PySlurmClient(commands, environment=module_that(tmp_path, module), say=pytest.fail)
    client.requeue(SEVEN)
    assert commands.requeued == []
