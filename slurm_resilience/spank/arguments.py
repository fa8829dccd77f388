"""What may stand behind resilience.so in plugstack.conf. Pure.

A bad argument never stops the plugin: it says so once and takes the default. So does this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

HealthMode = Literal["off", "warn", "exclude"]
_HEALTH_MODES: tuple[HealthMode, ...] = ("off", "warn", "exclude")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The defaults are the plugin's own."""

    spool: str = "/var/spool/slurm-resilience"
    """`%n` in it stands for the node's name: see spool_on."""
    relay: str | None = "/usr/libexec/slurm-resilience/relay"
    """None: off."""
    kill_wait_s: int = 30
    health: HealthMode = "off"
    health_dir: str = "/usr/libexec/slurm-resilience/health.d"
    health_timeout_s: int = 10
    notes_keep_days: int = 30
    runtime: str = "/dev/shm"  # noqa: S108 - the parent of the folder that the relay makes safely, not a temporary file

    def spool_on(self, node: str) -> str:
        return self.spool.replace("%n", node)


class _Bad(ValueError):
    """Why a value isn't taken."""


def read_arguments(words: Sequence[str], defaults: Arguments) -> tuple[Arguments, tuple[str, ...]]:
    """The arguments in force, and a sentence for each that isn't."""
    arguments, objections = defaults, []
    for word in words:
        name, equals, value = word.partition("=")
        take = _TAKEN_BY.get(name)
        if take is None:
            known = ", ".join(f"{each}=" for each in _TAKEN_BY)
            objections.append(f"`{word}` is no argument of this plugin (it knows {known})")
            continue
        try:
            arguments = take(arguments, value if equals else "")
        except _Bad as why:
            objections.append(f"`{word}`: {why}")
    return arguments, tuple(objections)


def _path(value: str) -> str:
    if not value.startswith("/"):
        raise _Bad("it must be an absolute path")
    return value


def _number(value: str, least: int, most: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value.lstrip("0")) <= 9 and least <= int(value) <= most):
        raise _Bad(f"it must be a whole number from {least} to {most}")
    return int(value)


def _mode(value: str) -> HealthMode:
    for mode in _HEALTH_MODES:
        if value == mode:
            return mode
    raise _Bad(f"it must be one of {', '.join(_HEALTH_MODES)}")


_TAKEN_BY: dict[str, Callable[[Arguments, str], Arguments]] = {
    "spool": lambda known, value: replace(known, spool=_path(value)),
    "relay": lambda known, value: replace(known, relay=None if value == "off" else _path(value)),
    "kill_wait": lambda known, value: replace(known, kill_wait_s=_number(value, 0, 604800)),
    "health": lambda known, value: replace(known, health=_mode(value)),
    "health_dir": lambda known, value: replace(known, health_dir=_path(value)),
    "health_timeout": lambda known, value: replace(known, health_timeout_s=_number(value, 1, 300)),
    "notes_keep_days": lambda known, value: replace(known, notes_keep_days=_number(value, 1, 36500)),
    "runtime": lambda known, value: replace(known, runtime=_path(value)),
}
