"""Slurm's settings, from `scontrol show config` or the text of slurm.conf. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_resilience.spank.facts import Settings

THE_CONTROLLER = "the controller"
NOBODY = "a usual installation"
SLURM_CONF_PLACES = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # what slurmd has fetched on a node without files of its own
    "/usr/local/etc/slurm.conf",
)


def read_answer(answer: str) -> dict[str, str]:
    """The settings of `scontrol show config`, their names in lower case."""
    parts = (line.partition("=") for line in answer.splitlines() if not line.startswith(" "))
    return {key.strip().lower(): value.strip() for key, equals, value in parts if equals}


def read_slurm_conf(text: str) -> dict[str, str]:
    """The settings that stand alone on a line, their names in lower case. Files that it includes are not followed."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        setting = re.match(r"\s*(\w+)\s*=\s*(\S+)", line.partition("#")[0])
        if setting is not None:
            found[setting[1].lower()] = setting[2].strip('"')
    return found


def settings_from(
    values: Mapping[str, str],
    *,
    told_by: str,
    why_not_the_controller: str | None,
    usual_plugin_directories: Sequence[Path],
    uid_of: Mapping[str, int],
) -> Settings:
    """`uid_of` knows the users that may stand in SlurmdUser by name alone."""
    plugstack = values.get("plugstackconfig", "")
    directories = values.get("plugindir", "")
    user, uid = _user(values.get("slurmduser", "root(0)"), uid_of)
    return Settings(
        told_by=told_by,
        why_not_the_controller=why_not_the_controller,
        plugstack=Path(plugstack) if plugstack.startswith("/") else None,
        plugin_directories=(
            tuple(Path(part) for part in directories.split(":") if part)
            if directories.startswith("/")
            else tuple(usual_plugin_directories)
        ),
        kill_wait_s=_seconds(values.get("killwait"), assumed=None if told_by in (THE_CONTROLLER, NOBODY) else 30),
        slurmd_user=user,
        slurmd_uid=uid,
    )


def _seconds(text: str | None, *, assumed: int | None) -> int | None:
    """`10 sec` or `10`. A slurm.conf that says nothing means `assumed`."""
    if text is None:
        return assumed
    found = re.match(r"\d+", text)
    return None if found is None else int(found[0])


def _user(text: str, uid_of: Mapping[str, int]) -> tuple[str, int]:
    """`root(0)`, or a name alone."""
    found = re.fullmatch(r"(.*)\((\d+)\)", text)
    if found is not None:
        return found[1], int(found[2])
    return text, int(text) if text.isdigit() else uid_of.get(text, 0)
