"""Gathers what files say about a case: logs, dumps, preflight's reports, exit and health notes, known by their content.

Nobody need sort them: a folder stands for all that lies below it. What is none of these is a log.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.manifest.records import Cause
from slurm_resilience.preflight.report import Report, read_report
from slurm_resilience.preflight.result import Outcome
from slurm_resilience.triage.account.account import Account, Unread, Verdict
from slurm_resilience.triage.account.collectives import who_is_behind
from slurm_resilience.triage.account.facts import Facts, LogEnd
from slurm_resilience.triage.account.flight_recorder import HEAD_BYTES, is_dump, read_dumps
from slurm_resilience.triage.account.going_on import gone_on_after
from slurm_resilience.triage.account.story import tell
from slurm_resilience.triage.event import Event
from slurm_resilience.triage.exit_notes import ExitNote, parse
from slurm_resilience.triage.health_notes import parse as parse_health
from slurm_resilience.triage.known.table import TABLE
from slurm_resilience.triage.reading.log_report import LogReport
from slurm_resilience.triage.reading.read_logs import read_logs

_NO_LOGS = frozenset(
    ".bin .bz2 .ckpt .distcp .gif .h5 .jpg .npy .npz .onnx .parquet .pdf .png .pt .pth .py .pyc .safetensors .so .tar "
    ".tgz .webp .xz .zip".split()
)
"""Endings of files in a folder that nobody writes logs into. Named by themselves they are read."""
_OUR_FOLDERS = frozenset({"checkpoints", "exit-notes", "preflight", "__pycache__"})
_OUR_FILES = ("manifest", "lease.json", "plan.json", "rendezvous.json", "stop.json", "end_of_time.json", "node-")
_FINISHED = "srun-resilient: the run is finished"
_SMALL_BYTES = 16 << 20
"""Reports and notes are smaller."""


@dataclass(frozen=True, slots=True)
class Reports:
    """What preflight and the node's own checks had said."""

    offsets_s: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sorted:
    """Paths by what lies there."""

    logs: tuple[Path, ...] = ()
    dumps: tuple[Path, ...] = ()
    reports: tuple[Path, ...] = ()
    exit_notes: tuple[Path, ...] = ()
    health: tuple[Path, ...] = ()
    unread: tuple[Unread, ...] = ()


def account_of_files(
    paths: Sequence[Path],
    facts: Facts,
    *,
    since: Mapping[Path, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> Account:
    """`facts` holds what others know already. Never raises for what stands in the files."""
    found = sort_out(paths)
    report = read_logs(found.logs, TABLE, progress=progress, workers=workers, since=since, attempt=None)
    return account_of(report, found, facts)


def account_of(report: LogReport, found: Sorted, facts: Facts) -> Account:
    dumps = read_dumps(found.dumps)
    said = read_reports(found.reports, found.health)
    notes, unread_notes = _exit_notes(found.exit_notes)
    logs = tuple(LogEnd(file.path, file.speaker.node, file.speaker.rank, file.last_s) for file in report.files)
    unread = [*found.unread, *dumps.unread, *unread_notes, *(Unread(one.path, one.why) for one in report.unreadable)]
    unread += [Unread(file.path, file.note) for file in report.files if file.note is not None]
    complete = replace(
        facts,
        offsets_s={**said.offsets_s, **facts.offsets_s},
        exit_notes=facts.exit_notes or notes,
        behind=facts.behind or who_is_behind(dumps.dumps, facts.world_size),
        logs=(*facts.logs, *logs),
        notes=tuple(dict.fromkeys((*facts.notes, *said.notes))),
        unread=(*facts.unread, *unread),
    )
    events = [_with_the_files_time(event) for event in report.events]
    if complete.verdict is None:
        complete = replace(complete, verdict=_said_to_be_finished(report, complete), went_on=gone_on_after(events))
    return tell(events, report.failures, complete, report.not_before_s)


def _said_to_be_finished(report: LogReport, facts: Facts) -> Verdict | None:
    """The last line of an output is srun-resilient's, and says so."""
    ends = [file.path for file in report.files if file.last_words.startswith(_FINISHED)]
    if not ends or facts.attempt is not None:
        return None
    return Verdict(Cause.FINISHED, f"{ends[0]} ends with srun-resilient's word that the run is finished", ends[0])


def _with_the_files_time(event: Event) -> Event:
    """What the training library writes of an exception has no time in it: it is written at once, in one go."""
    path = Path(event.place.file)
    if event.time_s is not None or not path.name.startswith("error-rank-"):
        return event
    with contextlib.suppress(OSError):
        return replace(event, time_s=path.stat().st_mtime)
    return event


def sort_out(paths: Iterable[Path]) -> Sorted:
    kinds: dict[str, list[Path]] = {"log": [], "dump": [], "report": [], "exit": [], "health": []}
    unread: list[Unread] = []
    for path in dict.fromkeys(_below(paths, unread)):
        kinds[_kind(path)].append(path)
    return Sorted(
        tuple(kinds["log"]),
        tuple(kinds["dump"]),
        tuple(kinds["report"]),
        tuple(kinds["exit"]),
        tuple(kinds["health"]),
        tuple(unread),
    )


def _below(paths: Iterable[Path], unread: list[Unread]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue

        def complain(error: OSError) -> None:
            unread.append(Unread(str(error.filename), f"{error.filename} can't be listed: {error.strerror}"))

        for folder, folders, files in os.walk(path, onerror=complain):
            folders[:] = sorted(
                name for name in folders if not name.startswith(".") and name not in _skipped(Path(folder))
            )
            for name in sorted(files):
                if _may_be_read(name):
                    yield Path(folder) / name


def _skipped(folder: Path) -> frozenset[str]:
    """Below a run's directory what is no log is known; what matters of it is read by those who know the run."""
    return _OUR_FOLDERS if (folder / "manifest.jsonl").exists() else frozenset({"__pycache__"})


def _may_be_read(name: str) -> bool:
    if name.startswith(".") or Path(name).suffix.lower() in _NO_LOGS:
        return False
    return not (name.startswith(_OUR_FILES) and name.endswith((".json", ".jsonl", ".lock")))


def _kind(path: Path) -> str:
    """A file that can't be opened is a log: who reads those says so."""
    try:
        if not path.is_file():
            return "log"
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return "log"
    if is_dump(path.name, head):
        return "dump"
    begin = head.lstrip()
    if begin[:1] != b"{":
        return "log"
    if path.name.endswith(".health.json") and b'"findings"' in head:
        return "health"
    if b'"clock_offsets_s"' in head or (b'"format"' in head and b'"results"' in head and b'"nodes"' in head):
        return "report"
    if b'"status"' in begin.splitlines()[0] and b'"restart"' in begin.splitlines()[0]:
        return "exit"
    return "log"


def read_reports(reports: Iterable[Path], health: Iterable[Path] = ()) -> Reports:
    offsets: dict[str, float] = {}
    notes: list[str] = []
    for path in reports:
        report = _report(path)
        if report is None:
            continue
        offsets.update(report.clock_offsets_s)
        for result in report.results:
            if result.finding.outcome is Outcome.FAIL:
                where = f" on {result.node}" if result.node else ""
                notes.append(f"preflight had failed{where}: {result.finding.sentence}")
    for path in health:
        with contextlib.suppress(OSError):
            note = parse_health(path.read_text(errors="replace"))
            if note is not None:
                notes.append(str(note))
    return Reports(offsets, tuple(notes))


def _report(path: Path) -> Report | None:
    """None, too, for one of a format that isn't known here: the logs can be read without it."""
    try:
        return read_report(path) if path.stat().st_size <= _SMALL_BYTES else None
    except (OSError, ManifestUnsupported):
        return None


def _exit_notes(paths: Iterable[Path]) -> tuple[tuple[ExitNote, ...], list[Unread]]:
    """Of the newest life of the job that they tell of."""
    notes: list[ExitNote] = []
    unread: list[Unread] = []
    for path in paths:
        try:
            found, torn = parse(path.read_text(errors="replace"))
        except OSError as error:
            unread.append(Unread(str(path), f"the exit notes {path} can't be read: {error.strerror}"))
            continue
        notes += found
        if torn:
            unread.append(Unread(str(path), f"{torn} lines of {path} are no exit notes"))
    newest = max(((note.job, note.restart) for note in notes), default=None, key=_life)
    mine = {note for note in notes if (note.job, note.restart) == newest}
    return tuple(sorted(mine, key=lambda note: (note.time_s, note.node, note.rank))), unread


def _life(life: tuple[str, int]) -> tuple[int, str, int]:
    job, restart = life
    head = job.partition("_")[0]
    return int(head) if head.isdigit() else 0, job, restart
