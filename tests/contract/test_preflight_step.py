"""The contract of preflight's Step, kept by processes of this machine; by srun: tests/slurm/test_preflight_step.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from slurm_resilience.errors import CommandMissing
from slurm_resilience.preflight.local_step import local_step
from slurm_resilience.preflight.step import Step
from tests.contract.preflight_step_contract import PROMISES, StepScene


class LocalScene:
    tasks = 2

    def step(self, program: str) -> Step:
        return local_step((sys.executable, "-c", program), ("n1", "n2"), os.environ)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_processes_of_this_machine_keep(promise: Callable[[StepScene], None]) -> None:
    promise(LocalScene())


def test_a_program_that_is_not_there_is_named() -> None:
    step = local_step(("/nowhere/python",), ("n1",), {})
    with pytest.raises(CommandMissing, match="/nowhere/python"):
        step.start()
    assert step.over
