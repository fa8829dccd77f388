"""Bringing a published checkpoint back: every byte held against its note before a file gets its name."""

from __future__ import annotations

from collections.abc import Callable
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
    PublishedFile,
    PublishedRun,
    contents_note,
    decode_published,
    decode_run,
)
from slurm_resilience.checkpoint.tiers.retry import persistently
from slurm_resilience.checkpoint.tiers.transfer import copy_file
from slurm_resilience.checkpoint.tiers.transit import Transit
from slurm_resilience.clock import Clock
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnsupported, ConfigurationError


def read_run(depot: Depot) -> PublishedRun:
    """Whose checkpoints `depot` holds. Raises ConfigurationError where it holds none."""
    raw = depot.read_note(RUN_NOTE)
    if raw is None:
        raise ConfigurationError(f"no checkpoint is published at {depot.where}: {RUN_NOTE} is missing")
    try:
        return decode_run(raw)
    except (NoteDamaged, NoteUnsupported) as error:
        raise ConfigurationError(f"{depot.where}/{RUN_NOTE}: {error}") from error


def read_published(depot: Depot, checkpoint: str) -> Published:
    """Raises ConfigurationError (not published there), CheckpointDamaged, CheckpointUnsupported."""
    name = f"{checkpoint}/{NOTE}"
    raw = depot.read_note(name)
    if raw is None:
        raise ConfigurationError(f"{checkpoint} is not published at {depot.where}")
    try:
        published = decode_published(raw)
    except NoteDamaged as error:
        raise CheckpointDamaged(Path(depot.where, name), str(error)) from error
    except NoteUnsupported as error:
        raise CheckpointUnsupported(f"{depot.where}/{name}: {error}") from error
    if published.checkpoint != checkpoint:
        raise CheckpointDamaged(Path(depot.where, name), f"it speaks of {published.checkpoint}")
    return published


def fetch(
    depot: Depot,
    published: Published,
    folder: Path,
    *,
    transit: Transit,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Make the files of `published` in `folder`, durably. What is there already and right isn't fetched again.

    The checkpoint doesn't exist by that: who called verifies its parts by their receipts, and commits it. Raises
    CheckpointDamaged (what is in `depot` isn't what was published), CheckpointUnavailable, Interrupted.
    """
    for file in published.files:
        get = partial(_get, depot, published.checkpoint, file, folder, transit)
        persistently(get, clock=clock, check=transit.check, say=say)


def _get(depot: Depot, checkpoint: str, file: PublishedFile, folder: Path, transit: Transit) -> None:
    note = contents_note(checkpoint, file.name)
    raw = depot.read_note(note)
    if raw is None:
        raise CheckpointDamaged(Path(depot.where, note), "the file is missing")
    try:
        contents = Contents.decode(raw)
    except ValueError as error:
        raise CheckpointDamaged(Path(depot.where, note), str(error)) from error
    if contents.identity != file.identity or contents.size_bytes != file.bytes:
        raise CheckpointDamaged(Path(depot.where, note), "it doesn't describe the file that was published")
    copy_file(
        depot.source(f"{checkpoint}/{file.name}"), contents, folder / file.name, owner=checkpoint, transit=transit
    )
