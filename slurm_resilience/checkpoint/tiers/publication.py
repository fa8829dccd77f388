"""Putting a checkpoint into a depot: its files first, each proven on its way, then the note that makes it count."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slurm_resilience.checkpoint.tiers.contents import Contents
from slurm_resilience.checkpoint.tiers.depot import Depot
from slurm_resilience.checkpoint.tiers.published import (
    NOTE,
    RUN_NOTE,
    NoteDamaged,
    NoteUnsupported,
    Published,
    PublishedRun,
    contents_note,
    decode_published,
    decode_run,
    encode_note,
)
from slurm_resilience.checkpoint.tiers.retry import persistently
from slurm_resilience.checkpoint.tiers.source import FileSource
from slurm_resilience.checkpoint.tiers.transit import Transit
from slurm_resilience.clock import Clock
from slurm_resilience.errors import CheckpointUnavailable, ConfigurationError


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A file on its way: `name` in the checkpoint's folder."""

    name: str
    path: Path
    contents: Contents


@dataclass(frozen=True, slots=True)
class Parcel:
    note: Published
    files: tuple[Outgoing, ...]


def claim(depot: Depot, run_id: str, run: str) -> None:
    """Make sure that the checkpoints on `depot` are this run's. ConfigurationError: they are another's."""
    raw = depot.read_note(RUN_NOTE)
    if raw is None:
        depot.write_note(RUN_NOTE, encode_note(PublishedRun(run_id, run)))
        return
    try:
        owner = decode_run(raw)
    except (NoteDamaged, NoteUnsupported) as error:
        raise ConfigurationError(f"{depot.where}/{RUN_NOTE}: {error}") from error
    if owner.run_id != run_id:
        raise ConfigurationError(
            f"{depot.where} holds the checkpoints of another run ({owner.run}, {owner.run_id}): "
            "give each run a place of its own, for example by {run_id} in the URL"
        )


def publish(
    depot: Depot, parcel: Parcel, *, transit: Transit, clock: Clock, say: Callable[[str], None] = lambda _: None
) -> None:
    """When this returns, the checkpoint is in `depot`, whole and durable. What is there already isn't sent again.

    Raises CheckpointDamaged (the checkpoint here isn't what was written, or its files are gone), CheckpointUnavailable
    (`depot` refused too often), ConfigurationError and Interrupted. After any of them the next call goes on.
    """
    note = parcel.note
    if persistently(partial(_is_there, depot, note), clock=clock, check=transit.check, say=say):
        for file in parcel.files:
            transit.found(file.contents.size_bytes)
        return
    for file in parcel.files:
        send = partial(_send, depot, note.checkpoint, file, transit)
        persistently(send, clock=clock, check=transit.check, say=say)
    seal = partial(depot.write_note, f"{note.checkpoint}/{NOTE}", encode_note(note))
    persistently(seal, clock=clock, check=transit.check, say=say)


def published_in(depot: Depot) -> list[str]:
    """The checkpoints that `depot` holds whole, in the order in which a resume would prefer them: the best last."""
    return sorted((name for name in depot.folders() if depot.size_of(f"{name}/{NOTE}") is not None), key=_by_numbers)


def _by_numbers(name: str) -> list[str | int]:
    """By step, then by attempt, of which the tenth comes behind the ninth."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", name)]


def _is_there(depot: Depot, note: Published) -> bool:
    raw = depot.read_note(f"{note.checkpoint}/{NOTE}")
    if raw is None:
        return False
    try:
        there = decode_published(raw)
    except NoteDamaged:
        return False  # written anew
    except NoteUnsupported as error:
        raise ConfigurationError(f"{depot.where}/{note.checkpoint}/{NOTE}: {error}") from error
    if there.files != note.files:
        raise ConfigurationError(f"{depot.where} holds another {note.checkpoint}: what is published is never replaced")
    return True


def _send(depot: Depot, checkpoint: str, file: Outgoing, transit: Transit) -> None:
    name, said = f"{checkpoint}/{file.name}", file.contents.encode()
    if (
        depot.read_note(contents_note(checkpoint, file.name)) == said
        and depot.size_of(name) == file.contents.size_bytes
    ):
        transit.found(file.contents.size_bytes)
        return
    depot.put(name, FileSource(file.path), file.contents, owner=checkpoint, transit=transit)
    size_bytes = depot.size_of(name)
    if size_bytes != file.contents.size_bytes:
        raise CheckpointUnavailable(
            f"{depot.where}/{name} has {size_bytes} bytes after {file.contents.size_bytes} were sent"
        )
    depot.write_note(contents_note(checkpoint, file.name), said)
