"""The contract of SlurmClient, kept by the fake and by the commands with the answers of a real Slurm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.fake_scene import FakeScene
from tests.contract.recorded_slurm import ReplayedScene
from tests.contract.slurm_client_contract import PROMISES
from tests.contract.slurm_scene import SlurmScene

RECORDED = Path(__file__).parents[1] / "recorded"
VERSIONS = sorted(path.parent.name for path in RECORDED.glob("*/client"))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_fake_keeps(promise: Callable[[SlurmScene], None]) -> None:
    promise(FakeScene())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_commands_with_recorded_answers_keep(promise: Callable[[SlurmScene], None], version: str) -> None:
    promise(ReplayedScene(RECORDED / version / "client" / f"{promise.__name__}.json"))


def test_there_are_recorded_answers() -> None:
    assert "22.05" in VERSIONS
