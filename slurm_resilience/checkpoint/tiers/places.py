"""Where checkpoints may lie besides the run directory, as people say it. Pure: text and variables in, values out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Union
from urllib.parse import unquote, urlsplit

from slurm_resilience.errors import ConfigurationError

PUBLISH = "SLURM_RESILIENCE_PUBLISH"

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """Anything fsspec has a driver for."""

    url: str

    def __str__(self) -> str:
        return self.url


Place = Union[Folder, ObjectUrl]


def parse_place(text: str, variables: Mapping[str, str], *, run: str = "", run_id: str = "") -> Place:
    """`/path`, `file:///path` or `s3://bucket/prefix`; `$NAME`, `{run}` and `{run_id}` are filled in.

    Raises ConfigurationError, with what to write instead.
    """
    filled = _with_fields(_with_variables(text.strip(), variables), {"run": run, "run_id": run_id})
    if "://" not in filled:
        if not filled.startswith("/"):
            raise ConfigurationError(f"{text!r} is no place: an absolute path or a URL like s3://bucket/prefix is")
        return Folder(Path(filled))
    parts = urlsplit(filled)
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*", parts.scheme):
        raise ConfigurationError(f"{text!r} is no place: {parts.scheme!r} is no kind of URL")
    if parts.password is not None:
        # The place is written into the manifest, which others may read.
        raise ConfigurationError("a place must not hold a password or a key: give it in the environment of the driver")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigurationError(f"{text!r} names no absolute path: file:///path has three slashes")
        return Folder(Path(unquote(parts.path)))
    if not parts.netloc and not parts.path.strip("/"):
        raise ConfigurationError(f"{text!r} names no bucket or folder")
    return ObjectUrl(filled.rstrip("/"))


def place_to_publish(
    variables: Mapping[str, str], *, option: str, said: str | None = None, run: str = "", run_id: str = ""
) -> Place | None:
    """What was asked for: `said` by `option`, or else by the environment. Raises ConfigurationError naming which."""
    text = said or variables.get(PUBLISH)
    if not text:
        return None
    try:
        return parse_place(text, variables, run=run, run_id=run_id)
    except ConfigurationError as error:
        raise ConfigurationError(f"{option if said else PUBLISH}: {error}") from error


def _with_variables(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not variables.get(name):
            raise ConfigurationError(f"{text!r} needs the environment variable {name}, which is not set here")
        return variables[name]

    return _VARIABLE.sub(value, text)


def _with_fields(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if not values.get(match[1]):
            raise ConfigurationError(f"{text!r}: {{{match[1]}}} can't be filled in; {{run}} and {{run_id}} can")
        return re.sub(r"[^A-Za-z0-9._-]+", "-", values[match[1]])

    return _FIELD.sub(value, text)
