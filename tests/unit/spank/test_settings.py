"""Slurm's settings, from its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.spank.facts import Settings
from slurm_resilience.spank.settings import NOBODY, THE_CONTROLLER, read_answer, read_slurm_conf, settings_from

RECORDED = Path(__file__).parents[2] / "recorded"


def settings(values: dict[str, str], *, told_by: str = THE_CONTROLLER) -> Settings:
    return settings_from(
        values,
        told_by=told_by,
        why_not_the_controller=None,
        usual_plugin_directories=[Path("/usual")],
        uid_of={"me": 7},
    )


def test_the_controllers_answer_names_plugstack_plugin_directories_kill_wait_and_user() -> None:
    answer = (
        "Configuration data as of 2025-11-30\nKillWait                = 10 sec\n"
        "PluginDir               = /a:/b\nPlugStackConfig         = /etc/slurm/plugstack.conf\n"
        "SlurmdUser              = me(7)\n  KillWait = 99\n"
    )
    found = settings(read_answer(answer))
    assert found.plugstack == Path("/etc/slurm/plugstack.conf")
    assert found.plugin_directories == (Path("/a"), Path("/b"))
    assert found.kill_wait_s == 10
    assert (found.slurmd_user, found.slurmd_uid) == ("me", 7)


def test_slurm_conf_is_read_whatever_the_case_and_without_its_comments() -> None:
    found = settings(read_slurm_conf('killwait = 45 # not 30\n#PluginDir=/no\nPlugStackConfig="/p"\n'), told_by="/c")
    assert found.kill_wait_s == 45
    assert found.plugin_directories == (Path("/usual"),)
    assert found.plugstack == Path("/p")


@pytest.mark.parametrize(
    ("told_by", "kill_wait_s"),
    [pytest.param("/etc/slurm/slurm.conf", 30), pytest.param(THE_CONTROLLER, None), pytest.param(NOBODY, None)],
)
def test_a_slurm_conf_that_is_silent_means_slurms_default_and_a_silent_controller_nothing(
    told_by: str, kill_wait_s: int | None
) -> None:
    assert settings({}, told_by=told_by).kill_wait_s == kill_wait_s


@pytest.mark.parametrize(
    ("text", "user"), [("root(0)", ("root", 0)), ("me", ("me", 7)), ("1000", ("1000", 1000)), ("gone", ("gone", 0))]
)
def test_slurmds_user_is_known_with_its_number(text: str, user: tuple[str, int]) -> None:
    found = settings({"slurmduser": text})
    assert (found.slurmd_user, found.slurmd_uid) == user


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_the_answers_of_real_controllers_are_read(version: str) -> None:
    found = settings(read_answer((RECORDED / version / "answers" / "scontrol-config").read_text()))
    assert found.plugstack is not None
    assert found.plugstack.name == "plugstack.conf"
    assert [folder.name for folder in found.plugin_directories] == ["slurm-wlm"]
    assert found.kill_wait_s is not None
