"""A rank's word about its part of one checkpoint: a small durable file beside the part.

It says that the part is durable, or that there will be none. It makes no checkpoint: the manifest does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.manifest.records import CheckpointId, SaveReason

FORMAT = 1
_NAME = re.compile(r"rank-([0-9]{5,})\.receipt")


@dataclass(frozen=True, slots=True)
class Terms:
    """What every rank says alike about a checkpoint: what it is the state of."""

    checkpoint: CheckpointId
    step: int
    attempt: int
    reason: SaveReason
    world_size: int
    shared: str | None = None
    """A checksum over the tensors that are said to be the same on all ranks and of which one rank writes each."""
    metric: float | None = None


@dataclass(frozen=True, slots=True)
class PartWritten:
    terms: Terms
    receipt: PartReceipt
    seconds: float
    """From the decision to save until this part was durable."""
    stall_s: float
    """How long this rank's training stood still for it."""


@dataclass(frozen=True, slots=True)
class PartRefused:
    checkpoint: CheckpointId
    rank: int
    why: str
    errno: int | None = None
    """The file system's, where it was the one that refused."""


PartWord = PartWritten | PartRefused


class WordUnreadable(Exception):
    """A word that isn't one of ours, or of a format that we don't know."""


def say(folder: Path, word: PartWord) -> None:
    """Write it down durably in `folder`, the checkpoint's. A second word replaces the first. Raises OSError."""
    make_directory_durably(folder)
    rank = word.receipt.rank if isinstance(word, PartWritten) else word.rank
    replace_durably(_path(folder, rank), json.dumps(_to_json(word)).encode())


def refuse(folder: Path, refused: PartRefused) -> None:
    """As `say`, and more stubborn: a disk that has no room for a word mostly takes its name, and an empty one refuses,
    too. Raises OSError."""
    try:
        say(folder, refused)
    except OSError:
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC  # what it may have said before no longer holds
        os.close(os.open(_path(folder, refused.rank), flags, 0o666))


def ranks_heard(folder: Path) -> set[int]:
    """The ranks whose word lies in `folder`. None without a folder. Raises OSError."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return set()
    return {int(match[1]) for match in map(_NAME.fullmatch, names) if match}


def hear(folder: Path, rank: int) -> PartWord:
    """Raises FileNotFoundError where it has said nothing, other OSErrors, and WordUnreadable."""
    path = _path(folder, rank)
    try:
        word = _from_json(json.loads(path.read_bytes()))
    except (ValueError, LookupError, TypeError) as error:
        raise WordUnreadable(f"{path} can't be read: {error}") from error
    said_by = word.receipt.rank if isinstance(word, PartWritten) else word.rank
    if said_by != rank:
        raise WordUnreadable(f"{path} is the word of rank {said_by}")
    return word


def shared_proof(checksums: Iterable[bytes]) -> str:
    """What `Terms.shared` holds: `checksums` are those of the shared tensors, in the order of their names."""
    return checksum_of(b"".join(checksums)).hex()


def terms_to_json(terms: Terms) -> dict[str, Any]:
    return {**asdict(terms), "reason": terms.reason.value}


def terms_from_json(value: Mapping[str, Any]) -> Terms:
    """Raises ValueError, LookupError or TypeError for anything that `terms_to_json` doesn't make."""
    known = {name: value[name] for name in Terms.__dataclass_fields__}
    return Terms(
        **{**known, "checkpoint": CheckpointId(str(value["checkpoint"])), "reason": SaveReason(value["reason"])}
    )


def _path(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank:05d}.receipt"


def _to_json(word: PartWord) -> dict[str, Any]:
    if isinstance(word, PartRefused):
        return {"format": FORMAT, "refused": asdict(word)}
    return {
        "format": FORMAT,
        "terms": terms_to_json(word.terms),
        "receipt": asdict(word.receipt),
        "seconds": word.seconds,
        "stall_s": word.stall_s,
    }


def _from_json(value: dict[str, Any]) -> PartWord:
    if value["format"] != FORMAT:
        raise ValueError(f"it has format {value['format']!r}, this slurm-resilience knows {FORMAT}")
    if "refused" in value:
        return PartRefused(**value["refused"])
    return PartWritten(
        terms_from_json(value["terms"]), PartReceipt(**value["receipt"]), value["seconds"], value["stall_s"]
    )
