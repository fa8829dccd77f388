"""The note that makes a checkpoint published: written last, when all its files are there.

<where>/run.json                                    whose checkpoints these are
<where>/step-0000000120.a3/rank-00000.h5            a part, as it lies in the run directory
<where>/step-0000000120.a3/rank-00000.h5.contents   which bytes it has: written when it is whole
<where>/step-0000000120.a3/checkpoint.json          this note
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from slurm_resilience.checkpoint.format.checksum import checksum_of

NOTE = "checkpoint.json"
RUN_NOTE = "run.json"

_FORMAT = "slurm-resilience published checkpoint"
_RUN_FORMAT = "slurm-resilience published run"
_VERSION = 1
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class NoteDamaged(Exception):
    """The message goes on after the note's name."""


class NoteUnsupported(Exception):
    """Whole, but of a version that we don't know."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    name: str
    bytes: int
    identity: str
    """Of its `Contents`."""


@dataclass(frozen=True, slots=True)
class Published:
    run_id: str
    run: str
    checkpoint: str
    step: int
    files: tuple[PublishedFile, ...]
    line: str
    """What the run's manifest says of it, in the manifest's own words, with their checksum."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    run_id: str
    run: str


def contents_note(checkpoint: str, file: str) -> str:
    return f"{checkpoint}/{file}.contents"


def encode_note(note: Published | PublishedRun) -> bytes:
    kind = _FORMAT if isinstance(note, Published) else _RUN_FORMAT
    content = json.dumps(asdict(note))
    value = {"format": kind, "version": _VERSION, "checksum": checksum_of(content.encode()).hex(), "content": content}
    return json.dumps(value, indent=1).encode("ascii") + b"\n"


def decode_published(raw: bytes) -> Published:
    """Raises NoteDamaged and NoteUnsupported. The names in it are plain: nothing leads out of a folder."""
    value = _content(raw, _FORMAT)
    try:
        files = tuple(PublishedFile(**file) for file in value.pop("files"))
        published = Published(files=files, **value)
    except (KeyError, TypeError) as error:
        raise NoteDamaged(f"it lacks something: {error}") from error
    for name in (published.checkpoint, *(file.name for file in files)):
        if not _PLAIN_NAME.fullmatch(str(name)):
            raise NoteDamaged(f"it names a file {name!r}")
    return published


def decode_run(raw: bytes) -> PublishedRun:
    """Raises NoteDamaged and NoteUnsupported."""
    try:
        return PublishedRun(**_content(raw, _RUN_FORMAT))
    except TypeError as error:
        raise NoteDamaged(f"it lacks something: {error}") from error


def _content(raw: bytes, kind: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
        format_, version, said, content = value["format"], value["version"], value["checksum"], value["content"]
        found = checksum_of(content.encode()).hex()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoteDamaged("it is not what was written") from error
    if format_ != kind or version != _VERSION:
        raise NoteUnsupported(f"it is a {format_!r} of version {version!r}; this version knows {kind!r}, {_VERSION}")
    if found != said:
        raise NoteDamaged(f"it has the checksum {found}, {said} was written")
    decoded = json.loads(content)
    if not isinstance(decoded, dict):
        raise NoteDamaged("it is not what was written")
    return decoded
