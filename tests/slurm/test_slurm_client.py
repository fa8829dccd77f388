"""The contract of SlurmClient, kept by Slurm's commands against a real controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.slurm_client_contract import PROMISES
from tests.contract.slurm_scene import SlurmScene
from tests.slurm.jobs import Jobs
from tests.slurm.real_scene import RealScene

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)  # it only answers questions here


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_commands_of_a_real_slurm_keep(promise: Callable[[SlurmScene], None], jobs: Jobs) -> None:
    promise(RealScene.of(jobs))
