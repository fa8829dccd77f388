from __future__ import annotations

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.preflight.planned_step import step_for
from slurm_resilience.preflight.request import PreflightRequest
from slurm_resilience.preflight.way import Surroundings, Way

IN_JOB = Surroundings(Way.JOB, "n[1-4]", cpus_per_node=8)


def _argv(here: Surroundings, nodes: str | None = None, **request: object) -> tuple[str, ...]:
    return step_for(here, PreflightRequest(**request), nodes, (), {"SLURMD_NODENAME": "n9"})[1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodes", "listed"),
    [
        (None, "--nodelist=n1,n2,n3,n4"),
        ("2", "--nodelist=n1,n2"),
        ("3-9", "--nodelist=n1,n2,n3"),
        ("n[2,4]", "--nodelist=n2,n4"),
    ],
)
def test_in_a_job_all_its_nodes_are_looked_at_or_those_that_were_asked_for(nodes: str | None, listed: str) -> None:
    assert listed in _argv(IN_JOB, nodes)


@pytest.mark.parametrize(
    ("nodes", "words"), [("n[3-5]", "n5"), ("5", "has 4 nodes"), ("0", "has 4"), ("n[", "neither")]
)
def test_nodes_that_the_job_does_not_have_are_refused(nodes: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        _argv(IN_JOB, nodes)


def test_from_a_login_node_a_list_is_asked_for_by_name_and_a_number_by_number() -> None:
    login = Surroundings(Way.LOGIN)
    assert {"--nodelist=n1,n2", "--nodes=2"} <= set(_argv(login, "n[1-2]"))
    assert "--nodes=4" in _argv(login, "4")
    assert not any(word.startswith("--nodelist") for word in _argv(login, "4"))


def test_without_slurm_it_is_this_machine_under_its_name() -> None:
    assert _argv(Surroundings(Way.LOCAL))[-2:] == ("--task=0", "--node=n9")


def test_the_interface_that_was_named_is_known_before_a_node_says_its_addresses() -> None:
    assert "--interface=ib0" in _argv(IN_JOB, interface="ib0")


def test_the_nodes_processes_outlive_all_limits_together_and_no_more_than_that() -> None:
    (deadline,) = [word for word in _argv(IN_JOB, time_limit_s=60.0, start_limit_s=20.0) if "--deadline" in word]
    assert 80 < float(deadline.partition("=")[2]) < 180
