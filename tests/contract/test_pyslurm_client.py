"""The contract of SlurmClient, kept by PySlurmClient over the stand-in for pyslurm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from slurm_resilience.slurm.client import JobRef
from slurm_resilience.slurm.pyslurm_client import PySlurmClient
from tests.contract.fake_pyslurm import FakePyslurm
from tests.contract.fake_scene import NOW_S, FakeScene
from tests.contract.slurm_client_contract import PROMISES
from tests.contract.slurm_scene import SlurmScene


class LaterScene(FakeScene):
    """Its jobs don't start at the epoch itself: that second is "no time" to pyslurm."""

    def _put(self, job: str | None = None, **changed: object) -> JobRef:
        return super()._put(job, **({"start_s": NOW_S} | changed))


class PySlurmScene:
    """The situations of FakeScene, seen through pyslurm; the commands are the FakeSlurm itself."""

    def __init__(self) -> None:
        self._made = LaterScene()
        slurm = self._made.client
        self.client = PySlurmClient(slurm, say=pytest.fail, runner=FakePyslurm(slurm).run)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_pyslurm_keeps(promise: Callable[[SlurmScene], None]) -> None:
    promise(cast("SlurmScene", PySlurmScene()))
