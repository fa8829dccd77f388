"""What NCCL is told: by the environment, by the user's file, by the node's file, in this order."""

from __future__ import annotations

from pathlib import Path

from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.checks.reading import text_of


def nccl_files(context: Context) -> dict[Path, dict[str, str]]:
    """The files that NCCL reads, with what they set; the one that counts more first."""
    own = context.environment.get("NCCL_CONF_FILE")
    home = context.environment.get("HOME")
    places = [Path(own)] if own else [Path(home) / ".nccl.conf"] if home else []
    places.append(context.root / "etc" / "nccl.conf")
    texts = {place: text_of(place) for place in places}
    return {place: settings_in(text) for place, text in texts.items() if text is not None}


def nccl_setting(context: Context, name: str) -> tuple[str, str] | None:
    """A setting and where it stands. None: nobody sets it."""
    if context.environment.get(name):
        return context.environment[name], name
    for place, settings in nccl_files(context).items():
        if settings.get(name):
            return settings[name], f"{name} in {place}"
    return None


def settings_in(text: str) -> dict[str, str]:
    pairs = (line.partition("#")[0].partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}
