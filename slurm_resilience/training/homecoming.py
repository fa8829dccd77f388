"""Bringing to the run directory what an attempt before this one could only stage: then it is a checkpoint like any."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.checkpoint.hdf5_store import CHECKPOINTS, Hdf5Store, part_name
from slurm_resilience.checkpoint.tiers.part_contents import contents_of_parts
from slurm_resilience.checkpoint.tiers.retry import persistently
from slurm_resilience.checkpoint.tiers.source import FileSource
from slurm_resilience.checkpoint.tiers.transfer import copy_file, refusals
from slurm_resilience.checkpoint.tiers.transit import Transit
from slurm_resilience.clock import Clock
from slurm_resilience.commit.adoption import adopt_one
from slurm_resilience.commit.part_word import PartWritten, WordUnreadable, hear, ranks_heard, say
from slurm_resilience.commit.refusal import NO_ROOM, errno_of
from slurm_resilience.errors import CheckpointError, CheckpointUnavailable
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.journey import Fetch, Journey, OutOfReach, Sighting, plan_journeys
from slurm_resilience.training.ranks import Ranks, on_rank_zero
from slurm_resilience.training.room import RoomMaker, say_on_stderr
from slurm_resilience.training.second_place import root_in

_TRIES = 4
"""For a file system that is away for a moment: what isn't brought home now is lost once the training goes on."""


@dataclass(frozen=True, slots=True)
class _Search:
    run_id: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Refused:
    why: str
    errno: int | None


class _NoRoom(Exception):
    """Trying again makes none."""


class Homecoming:
    """Called by all ranks, before a checkpoint is chosen. Crash anywhere in here: the next start does it again."""

    def __init__(
        self,
        *,
        ranks: Ranks,
        journal: Journal,
        attempt: int,
        clock: Clock,
        second_place: Path | None,
        room: RoomMaker | None,
    ) -> None:
        """`second_place` is the same on all ranks; the places that the manifest names are looked at besides.

        `room` is rank 0's.
        """
        self._ranks = ranks
        self._journal = journal
        self._attempt = attempt
        self._clock = clock
        self._second_place = second_place
        self._room = room

    def bring(self) -> None:
        """Commit the newest staged checkpoint that all its parts are found of, if it is newer than what is durable.

        Raises Fenced, PeersGone, and what the manifest raised on rank 0.
        """
        search = on_rank_zero(self._ranks, self._search)
        if not search.places:
            return
        seen = self._ranks.all_gather(_seen(search))
        for journey in on_rank_zero(self._ranks, lambda: self._plan(seen)):
            if isinstance(journey, OutOfReach):
                self._say(f"{journey.checkpoint} was staged and can't be brought back: {journey.why}")
            elif self._travel(journey, search.run_id):
                return

    def _search(self) -> _Search:
        chain = Chain.of(self._journal.read())
        told = [each.record.where for each in chain.staged if not each.durable]
        own = [] if self._second_place is None else [str(self._second_place)]
        return _Search(chain.run_id, tuple(dict.fromkeys([*own, *told])))

    def _plan(self, seen: list[dict[tuple[str, str], Sighting]]) -> list[Journey | OutOfReach]:
        return plan_journeys(seen, Chain.of(self._journal.read()), self._attempt)

    def _travel(self, journey: Journey, run_id: str) -> bool:
        refused = self._fetch_all(journey, run_id)
        if refused is not None and refused.errno in NO_ROOM and self._make_room(journey, refused):
            refused = self._fetch_all(journey, run_id)
        if refused is not None:
            self._say(f"{journey.checkpoint} was staged and can't be brought back: {refused.why}")
            return False
        why = on_rank_zero(self._ranks, lambda: self._commit(journey.checkpoint))
        self._say(why or f"{journey.checkpoint} was staged, and is in the run directory and committed now")
        return why is None

    def _make_room(self, journey: Journey, refused: _Refused) -> bool:
        def make() -> bool:
            return self._room is not None and self._room.make_room(refused.errno, sparing={journey.checkpoint})

        return on_rank_zero(self._ranks, make)

    def _commit(self, checkpoint: str) -> str | None:
        try:
            committed = adopt_one(self._journal, checkpoint, attempt=self._attempt, clock=self._clock)
        except OSError as error:
            return f"{checkpoint} was brought back and can't be committed: {error}"
        return None if committed is not None else f"{checkpoint} was brought back and can't be committed"

    def _fetch_all(self, journey: Journey, run_id: str) -> _Refused | None:
        mine = [fetch for fetch in journey.fetches if fetch.by == self._ranks.rank]
        refused = next(filter(None, (self._fetch(journey.checkpoint, fetch, run_id) for fetch in mine)), None)
        return next(filter(None, self._ranks.all_gather(refused)), None)

    def _fetch(self, checkpoint: str, fetch: Fetch, run_id: str) -> _Refused | None:
        root = root_in(Path(fetch.place), run_id)
        try:
            persistently(lambda: self._copy(root, checkpoint, fetch.part), clock=self._clock, tries=_TRIES)
        except (CheckpointError, WordUnreadable, ValueError, _NoRoom) as error:
            return _Refused(f"the part of rank {fetch.part}: {error}", errno_of(error))
        return None

    def _copy(self, root: Path, checkpoint: str, part: int) -> None:
        """The part, then its word: what is there and right already is left alone."""
        home = self._journal.run.checkpoints / checkpoint
        try:
            with refusals(f"the word of rank {part} on {checkpoint} in {root}"):
                word = hear(RunDirectory(root).checkpoints / checkpoint, part)
            if (
                not isinstance(word, PartWritten)
                or word.receipt.file != f"{CHECKPOINTS}/{checkpoint}/{part_name(part)}"
            ):
                raise ValueError(f"it was not written whole in {root}")
            source = root / word.receipt.file
            contents = contents_of_parts([(word.receipt, Hdf5Store(root).head_of(word.receipt))], lambda _: 0)
            final = home / source.name
            copy_file(FileSource(source), contents[source.name], final, owner=checkpoint, transit=Transit())
            with refusals(f"{home} can't be written to"):
                say(home, word)
        except CheckpointUnavailable as error:
            if errno_of(error) in NO_ROOM:
                raise _NoRoom(str(error)) from error
            raise

    def _say(self, sentence: str) -> None:
        if self._ranks.rank == 0:
            say_on_stderr(sentence)


def _seen(search: _Search) -> dict[tuple[str, str], Sighting]:
    """What this rank sees of each place. A place that isn't here is empty."""
    seen = {}
    for place in search.places:
        folder = RunDirectory(root_in(Path(place), search.run_id)).checkpoints
        with contextlib.suppress(OSError):
            for found in sorted(folder.iterdir()):
                sighting = _sighting(found)
                if sighting is not None:
                    seen[place, found.name] = sighting
    return seen


def _sighting(folder: Path) -> Sighting | None:
    """None: no part was written whole there. Raises OSError."""
    if not folder.is_dir():
        return None
    parts = ranks_heard(folder)
    with contextlib.suppress(FileNotFoundError, WordUnreadable, ValueError):
        word = hear(folder, min(parts))
        if isinstance(word, PartWritten):
            return Sighting(frozenset(parts), word.terms.world_size)
    return None
