"""Which events are of the attempt that is told of, and when they were by one clock. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.roster import Roster, speaker_of
from slurm_resilience.triage.event import Event, Place, Speaker
from slurm_resilience.triage.reading.log_report import RankFailure

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z][A-Za-z0-9]*)*|[A-Za-z0-9]+")


def of_attempt(
    events: Sequence[Event], failures: Sequence[RankFailure], facts: Facts
) -> tuple[list[Event], list[RankFailure], list[str]]:
    """Those of one attempt of one job: the newest that the logs know, unless another was asked for.

    What doesn't say whose it is belongs to it, unless its file tells attempts apart and this stood before the first.
    """
    notes: list[str] = []
    speakers = [(event.place.file, event.speaker) for event in events]
    speakers += [(failure.place.file, failure.speaker) for failure in failures]
    job = facts.job if facts.job is not None else _newest_job(speaker for _, speaker in speakers)
    jobs = sorted({speaker.job for _, speaker in speakers if speaker.job is not None}, key=_number)
    if len(jobs) > 1 and job is not None:
        notes.append(f"the logs are of jobs {', '.join(jobs)}: this tells of job {job}")
    numbers = {speaker.attempt for _, speaker in speakers if speaker.attempt is not None and _of_job(speaker, job)}
    attempt = facts.attempt if facts.attempt is not None else max(numbers, default=None)
    if len(numbers) > 1:
        listed = ", ".join(map(str, sorted(numbers)))
        notes.append(f"the logs are of attempts {listed}: this tells of attempt {attempt}")
    marked = {file for file, speaker in speakers if speaker.attempt is not None}

    def mine(file: str, speaker: Speaker) -> bool:
        if not _of_job(speaker, job):
            return False
        if attempt is None or speaker.attempt == attempt:
            return True
        return speaker.attempt is None and file not in marked

    return (
        [event for event in events if mine(event.place.file, event.speaker)],
        [failure for failure in failures if mine(failure.place.file, failure.speaker)],
        notes,
    )


def _of_job(speaker: Speaker, job: str | None) -> bool:
    return job is None or speaker.job is None or speaker.job == job or _parent(speaker.job) == _parent(job)


def _parent(job: str) -> str:
    return job.partition("_")[0]


def _newest_job(speakers: Iterable[Speaker]) -> str | None:
    return max((speaker.job for speaker in speakers if speaker.job is not None), key=_number, default=None)


def _number(job: str) -> tuple[int, int, str]:
    head, _, task = job.partition("_")
    return int(head) if head.isdigit() else 0, int(task) if task.isdigit() else 0, job


def by_file_names(
    events: Iterable[Event], failures: Iterable[RankFailure], nodes: Sequence[str]
) -> tuple[list[Event], list[RankFailure]]:
    """With the node that a file's name has in it, once the nodes are known: `train-12-n3.out` of n3."""
    names = frozenset(nodes)

    def named(place: Place, speaker: Speaker) -> Speaker:
        if speaker.node is not None:
            return speaker
        words = names.intersection(_WORD.findall(place.file.rpartition("/")[2]))
        return replace(speaker, node=next(iter(words))) if len(words) == 1 else speaker

    return (
        [replace(event, speaker=named(event.place, event.speaker)) for event in events],
        [replace(failure, speaker=named(failure.place, failure.speaker)) for failure in failures],
    )


def on_corrected_clocks(
    events: Iterable[Event],
    failures: Iterable[RankFailure],
    not_before_s: Mapping[Place, float],
    roster: Roster,
    offsets_s: Mapping[str, float],
) -> tuple[list[Event], list[RankFailure]]:
    """Each time without what its node's clock is ahead; a line without a time has the last one before it."""
    told = []
    for event in events:
        time_s = event.time_s if event.time_s is not None else not_before_s.get(event.place)
        if time_s is not None:
            node = roster.who(event.speaker).node or roster.about(event).node
            time_s = round(time_s - offsets_s.get(node or "", 0.0), 6)
        told.append(replace(event, time_s=time_s))
    tables = []
    for failure in failures:
        time_s = failure.time_s
        if time_s is not None:
            node = roster.who(speaker_of(failure)).node
            time_s = round(time_s - offsets_s.get(node or "", 0.0), 6)
        tables.append(replace(failure, time_s=time_s))
    return told, tables
