"""Who can say how an attempt ended: agents by their records, tasks by their exit notes, ranks by their exceptions."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.launch.host_list import expand
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, read_agent_record
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.pulse import Beat
from slurm_resilience.triage.event import Event
from slurm_resilience.triage.evidence import CLOCKS_AGREE_S
from slurm_resilience.triage.exit_notes import ExitNote, read_exit_notes
from slurm_resilience.triage.health_notes import HealthNote, Mode, read_health_notes

WORDS = 300
"""Of a rank's last words, and of a line of the output: so many characters are kept."""
OUTPUT_BYTES = 16 << 20
"""Of the end of an attempt's output that is looked through."""
OUTPUT_LINES = 10
"""Of the first and of the last that are known: the first has the root, and the last Slurm's word."""
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::|$)")


@dataclass(frozen=True, slots=True)
class LastWords:
    """The exception that ended a rank."""

    rank: int
    text: str
    """`rank-00003: ValueError: bad`."""
    time_s: float
    """When it was written, since the epoch, by the clock of the file system."""


def agent_records(run: RunDirectory, attempt: int, say: Callable[[str], None]) -> list[AgentRecord]:
    """The records that can be read, by node; `say` hears of one that another version has written."""
    return [record for _, record in _records(run, attempt, say)]


def agents_and_beats(
    run: RunDirectory, attempt: int, say: Callable[[str], None]
) -> tuple[list[AgentRecord], dict[int, Beat]]:
    """As `agent_records`, with their signs of life by node id (or task number)."""
    records: list[AgentRecord] = []
    beats: dict[int, Beat] = {}
    for path, record in _records(run, attempt, say):
        records.append(record)
        with contextlib.suppress(OSError):
            status = path.stat()  # it was just opened, which asks the file server anew for what this says
            version = (status.st_ino, status.st_mtime_ns)
            beats[record.node_id] = Beat(version, record.outcome is Outcome.RUNNING)
    return records, beats


def _records(run: RunDirectory, attempt: int, say: Callable[[str], None]) -> Iterator[tuple[Path, AgentRecord]]:
    try:
        paths = run.agent_records(attempt)
    except OSError as error:
        say(f"the node agents' records in {run.attempt(attempt)} can't be listed: {error.strerror or error}")
        return
    for path in paths:
        try:
            record = read_agent_record(path)
        except ManifestUnsupported as error:
            say(str(error))
            continue
        if record is not None:
            yield path, record


def last_words(run: RunDirectory, attempt: int) -> tuple[LastWords, ...]:
    """Each rank's exception, oldest first: the first one to fall is most likely the root."""
    found: list[LastWords] = []
    paths: list[Path] = []
    with contextlib.suppress(OSError):
        paths = list(run.attempt(attempt).glob("error-rank-*.txt"))
    for path in paths:
        rank = path.stem.removeprefix("error-rank-")
        if not rank.isdigit():
            continue
        with contextlib.suppress(OSError):  # one witness less
            text, time_s = path.read_text(errors="replace"), path.stat().st_mtime
            found.append(LastWords(int(rank), f"rank-{rank}: {exception_line(text)}", time_s))
    return tuple(sorted(found, key=lambda words: (words.time_s, words.rank)))


def exception_line(traceback: str) -> str:
    """The line that names the exception, with the last one of its message where that has several.

    Of a chain of exceptions the last counts: it is the one that nobody caught.
    """
    lines = traceback.strip().splitlines()
    if not lines:
        return "no words"
    starts = [at for at, line in enumerate(lines) if line.strip() == _TRACEBACK]
    block = lines[starts[-1] + 1 :] if starts else []
    named = next((line for line in block if _EXCEPTION.match(line)), lines[-1])
    last = lines[-1].strip()
    return named[:WORDS] if last == named.strip() else f"{named[: WORDS // 2]} … {last[: WORDS // 2]}"


def task_ends(run: RunDirectory, chain: Chain, attempt: Attempt, say: Callable[[str], None]) -> tuple[ExitNote, ...]:
    """The exit notes of the attempt, the oldest first; none where no plugin writes them.

    One life of a job may have several attempts, and other steps before them: what ended outside of the attempt's own
    time is not of it.
    """
    job, restarts = attempt.started.job, attempt.started.restart_count or 0
    if job is None:
        return ()
    later = [
        each.started_s
        for each in chain.attempts
        if each.number > attempt.number and (each.started.job, each.started.restart_count or 0) == (job, restarts)
    ]
    since_s, until_s = attempt.started_s - CLOCKS_AGREE_S, min(later, default=math.inf)
    notes = read_exit_notes(run.exit_notes(job, restarts), restarts, say)
    return tuple(note for note in notes if since_s <= note.time_s < until_s)


def health_of_nodes(run: RunDirectory, attempt: Attempt, say: Callable[[str], None]) -> tuple[HealthNote, ...]:
    """What was wrong with the job's nodes when it came there, by node; none where no plugin looks."""
    job = attempt.started.job
    return () if job is None else read_health_notes(run.exit_notes(job, attempt.started.restart_count), say)


def refusal(run: RunDirectory, job: str | None, restart_count: int | None) -> str | None:
    """Why a node lets no task of this life of the job start, while it runs; None: none is known to."""
    notes = () if job is None else read_health_notes(run.exit_notes(job, restart_count), lambda _: None)
    return next((str(note) for note in notes if note.mode is Mode.EXCLUDE), None)


def telling_lines(output: Path, since_byte: int, say: Callable[[str], None]) -> tuple[str, ...]:
    """The lines of an output that some entry knows for news of an end, in their order; none where it can't be read.

    `since_byte`: its length when the attempt began; what lies before that is of the attempts before. Of many lines the
    first and the last are kept, and what names a cause before what only follows from one.
    """
    from slurm_resilience.triage.known.entry import Role
    from slurm_resilience.triage.known.table import TABLE
    from slurm_resilience.triage.reading.read_logs import read_logs

    try:
        end = output.stat().st_size
    except OSError:
        return ()
    begin = max(since_byte if since_byte <= end else 0, end - OUTPUT_BYTES)
    try:
        report = read_logs((output,), TABLE, workers=1, since={output: begin})
    except Exception as error:  # noqa: BLE001  # one witness less; without an end of the attempt, the run would be lost
        say(f"the output {output} could not be looked through ({error!r}): triage does without it")
        return ()
    known = [
        (event.known.role, _as_it_stood(event))
        for event in report.events
        if event.known is not None and event.known.role is not Role.ADVICE
    ]
    roots = tuple(dict.fromkeys(line for role, line in known if role is Role.ROOT))[: 2 * OUTPUT_LINES]
    others = [line for line in dict.fromkeys(line for _, line in known) if line not in roots]
    left = max(0, 2 * OUTPUT_LINES - len(roots))
    if len(others) > left:
        others = others[: left - left // 2] + others[len(others) - left // 2 :]
    kept = {*roots, *others}
    return tuple(line for line in dict.fromkeys(line for _, line in known) if line in kept)


def _as_it_stood(event: Event) -> str:
    rank = event.speaker.rank
    return (event.text if rank is None else f"[rank{rank}]: {event.text}")[:WORDS]


def saves_refused(attempt: Attempt) -> tuple[str, ...]:
    """Why saves failed that no later commit made good, in their order."""
    newest = max((committed.step for committed in attempt.checkpoints), default=-1)
    return tuple(failed.why for failed in attempt.saves_failed if failed.step > newest)


def unheard(attempt: Attempt, agents: Sequence[AgentRecord], expected: int) -> tuple[str, ...]:
    """The nodes without a record, where it is clear which ones took part: those of a step on all nodes of the job."""
    if len(agents) >= expected or not attempt.started.nodes:
        return ()
    nodes = expand(attempt.started.nodes)
    heard = {agent.host for agent in agents}
    return tuple(node for node in nodes if node not in heard) if len(nodes) == expected else ()
