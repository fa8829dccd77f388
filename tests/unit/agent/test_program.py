"""What is blocked in the tree follows from who is to hear what."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from slurm_resilience.agent.program import rules, shielded
from slurm_resilience.agent.supervision import Forwarding
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind
from tests.unit.agent.test_command_line import PLAN

TERM, USR1, USR2 = signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2


@pytest.mark.parametrize(
    ("kind", "forward_signal", "forwarding", "blocked"),
    [
        (CommandKind.TORCHRUN, None, Forwarding.NOT, {TERM, USR1, USR2}),
        (CommandKind.TORCHRUN, "USR1", Forwarding.CHOSEN, {TERM, USR2}),
        (CommandKind.TORCHRUN, "SIGTERM", Forwarding.CHOSEN, {USR1, USR2}),
        (CommandKind.TORCHRUN, "INT", Forwarding.CHOSEN, {TERM, USR1, USR2}),
        (CommandKind.TASK, "USR2", Forwarding.CHOSEN, {TERM, USR1}),
        (CommandKind.TASK, None, Forwarding.AS_IT_CAME, set()),
    ],
)
def test_all_of_slurms_signals_are_blocked_but_the_one_somebody_is_to_hear(kind, forward_signal, forwarding, blocked):
    found = rules(replace(PLAN, kind=kind, forward_signal=forward_signal))
    assert found.forwarding is forwarding
    assert shielded(found) == blocked


def test_a_task_is_one_rank_and_a_node_has_as_many_as_the_plan_says():
    assert rules(replace(PLAN, kind=CommandKind.TASK)).ranks == 1
    assert rules(PLAN).ranks == 8


def test_a_signal_that_does_not_exist_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="USR9"):
        rules(replace(PLAN, forward_signal="USR9"))


@pytest.mark.parametrize("word", ["gpu", "cpu", "auto"])
def test_what_torchrun_counts_is_unknown_until_the_ranks_say(word):
    assert rules(replace(PLAN, nproc_per_node=word)).ranks is None
    assert rules(replace(PLAN, kind=CommandKind.TASK, nproc_per_node=word)).ranks == 1
