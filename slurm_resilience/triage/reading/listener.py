"""One file's telling lines, in their order: who says what, when, in which attempt. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slurm_resilience.triage.event import Event, Place, Speaker
from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.reading.crashes import crash_in
from slurm_resilience.triage.reading.log_report import AttemptPart, RankFailure
from slurm_resilience.triage.reading.matcher import Matched, Matcher, excerpt
from slurm_resilience.triage.reading.moments import Moments
from slurm_resilience.triage.reading.sections import mark_in
from slurm_resilience.triage.reading.speakers import NOBODY, spoken, together
from slurm_resilience.triage.reading.tally import Tally
from slurm_resilience.triage.reading.torchrun_table import Row, Table, table_begun
from slurm_resilience.triage.reading.tracebacks import Part, Traceback, told_in_one_line, traceback_begun
from slurm_resilience.triage.reading.vocabulary import Sign

FOREIGN = 2000
"""Lines of others after which a traceback that nobody goes on with is taken as ended."""
PARTS = 1000
FAILURES = 20_000
SPEAKERS = 10_000
_HEAD = 3
"""A traceback begins so few lines behind the word that it ended nothing."""
_Voice = tuple[int | None, int | None, int | None, str | None]
_NO_VOICE: _Voice = (None, None, None, None)


@dataclass(slots=True)
class _Open:
    """A traceback or a table that goes on."""

    speaker: Speaker
    last_line: int
    traceback: Traceback | None = None
    table: Table | None = None
    raised: list[Event] = field(default_factory=list)
    """An event for each of the traceback's links."""
    not_before_s: float | None = None
    ended_nothing: bool = False
    """Python has printed it, and gone on: an exception in a destructor, in a log handler, at the exit."""


@dataclass(slots=True)
class Listener:
    path: str
    by_name: Speaker
    matcher: Matcher
    moments: Moments
    tally: Tally = field(default_factory=Tally)
    parts: list[AttemptPart] = field(default_factory=list)
    failures: list[RankFailure] = field(default_factory=list)
    open: dict[_Voice, _Open] = field(default_factory=dict)
    latest_s: float | None = None
    """The time of the last line that was heard and had one."""
    _unraisable: dict[_Voice, int] = field(default_factory=dict)
    """By voice, the last line that says of an exception that nobody was there to catch it."""
    _section: Speaker = NOBODY
    _whole: dict[Speaker, Speaker] = field(default_factory=dict)

    def hear(self, number: int, line: str, places: Sequence[int], signs: frozenset[Sign]) -> None:
        """A line that is telling (`places`, `signs`), or that may belong to something open."""
        speaker, said = spoken(line)
        voice = (speaker.task, speaker.rank, speaker.local_rank, speaker.node)
        going_on = self.open.get(voice)
        if going_on is not None:
            going_on.last_line = number
            if self._go_on(voice, going_on, said, number, line, places):
                return
        elif not places and not signs:
            return
        if signs:
            if Sign.SECTION in signs:
                self._begin_part(line, number)
            if Sign.UNRAISABLE in signs and len(self._unraisable) < SPEAKERS:
                self._unraisable[voice] = number
            if Sign.TRACEBACK in signs and self._begin_traceback(voice, speaker, said, number):
                return
            table = table_begun(said, self._who(speaker)) if Sign.TABLE in signs else None
            if table is not None:
                self._end(voice)
                self.open[voice] = _Open(speaker, number, table=table)
        matched = self.matcher.find(places, line, said) if places else None
        crash = crash_in(said) if matched is None and Sign.CRASH in signs else None
        raised = told_in_one_line(said) if matched is None and Sign.TRACEBACK in signs else None
        if raised is not None:
            event, not_before_s = self._event(number, line, said, speaker, None, 0, 1)
            self.tally.add(replace(event, text=excerpt(raised, 0)), not_before_s)
            return
        if matched is not None or crash is not None:
            self.tally.add(*self._event(number, line, said, speaker, matched, crash or 0, 1))

    def count(self, number: int, line: str, places: Sequence[int], count: int) -> None:
        """So many lines like this one, which is their last, were not heard: none of them goes on with anything."""
        speaker, said = spoken(line)
        matched = self.matcher.find(places, line, said)
        if matched is not None:
            self.tally.add(*self._event(number, line, said, speaker, matched, 0, count))

    def end(self) -> None:
        """The file ends."""
        for voice in list(self.open):
            self._end(voice)

    @property
    def in_frames(self) -> bool:
        """One traceback goes on, of nobody in particular: an indented line is of it, and tells nothing."""
        only = self.open.get(_NO_VOICE) if len(self.open) == 1 else None
        return only is not None and only.traceback is not None and only.traceback.in_frames

    def end_forsaken(self, number: int) -> None:
        """Of what is open, what nobody has gone on with for long."""
        for voice in [voice for voice, one in self.open.items() if number - one.last_line > FOREIGN]:
            self._end(voice)

    # ── what goes on over several lines ──────────────────────────────────────────────────────────────────────────────

    def _begin_traceback(self, voice: _Voice, speaker: Speaker, said: str, number: int) -> bool:
        traceback = traceback_begun(said)
        if traceback is None:
            return False
        self._end(voice)
        said_so = self._unraisable.get(voice)
        ended_nothing = said_so is not None and number - said_so <= _HEAD
        self.open[voice] = _Open(
            speaker, number, traceback=traceback, not_before_s=self.latest_s, ended_nothing=ended_nothing
        )
        return True

    def _go_on(self, voice: _Voice, open_: _Open, said: str, number: int, line: str, places: Sequence[int]) -> bool:
        """Whether the line is of what is open, and of nothing else."""
        if open_.table is not None:
            inside = open_.table.take(said, number)
            if open_.table.over:
                self._end(voice)
            return inside
        assert open_.traceback is not None
        part = open_.traceback.take(said, number)
        if part is Part.EXCEPTION:
            matched = self.matcher.find(places, line, said) if places else None
            event, _ = self._event(number, line, said, open_.speaker, matched, 0, 1)
            open_.raised.append(replace(event, text=excerpt(open_.traceback.links[-1].text, 0)))
            if "ChildFailedError:" in said:  # torchrun's own: its table follows as the exception's message
                self._end(voice)
                who = self._who(open_.speaker)
                self.open[voice] = _Open(open_.speaker, number, table=Table(who))
        if open_.traceback.over:
            self._end(voice)
        return part in (Part.EXCEPTION, Part.INSIDE)

    def _end(self, voice: _Voice) -> None:
        open_ = self.open.pop(voice, None)
        if open_ is None:
            return
        if open_.table is not None:
            open_.table.end()
            for row in open_.table.rows:
                self._tell_row(row)
        elif open_.raised and open_.traceback is not None:
            event = _raised(open_.raised, open_.traceback)
            if not open_.ended_nothing or (event.known is not None and event.known.role is Role.ROOT):
                self.tally.add(event, open_.not_before_s)

    def _tell_row(self, row: Row) -> None:
        failure = replace(row.failure, place=Place(self.path, row.failure.place.line))
        if len(self.failures) < FAILURES:
            self.failures.append(failure)
        # torchrun may know its own node by this name only.
        node = failure.speaker.node if failure.host == "localhost" else failure.host
        about = Speaker(node, failure.rank, failure.local_rank, pid=failure.pid)
        said = failure.message
        if said is None and failure.exitcode is not None:
            said = f"exitcode  : {failure.exitcode} (pid: {failure.pid})" + (
                f" ({failure.signal})" if failure.signal else ""
            )
        if said is None:
            return
        matched = self.matcher.find(range(len(self.matcher.table)), said, said)
        if matched is None and failure.message is None:  # an exit code that says nothing more
            return
        place = Place(self.path, row.message_line or failure.place.line)
        known = None if matched is None else matched.entry
        groups: tuple[tuple[str, str], ...] = () if matched is None else matched.groups
        self.tally.add(Event(place, said, known, failure.speaker, about, failure.time_s, 1, groups), None)

    # ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_part(self, line: str, number: int) -> None:
        mark = mark_in(line)
        if mark is None:
            return
        if mark.attempt is not None:
            self._section = Speaker(attempt=mark.attempt)
            self._whole.clear()
        else:
            self._section = replace(self._section, job=mark.job)
            self._whole.clear()
        part = AttemptPart(self._section.attempt, mark.run, self._section.job, number)
        last = self.parts[-1] if self.parts else None
        if len(self.parts) < PARTS and (last is None or (last.attempt, last.job) != (part.attempt, part.job)):
            self.parts.append(part)

    def _who(self, speaker: Speaker) -> Speaker:
        who = self._whole.get(speaker)
        if who is None:
            if len(self._whole) > SPEAKERS:
                self._whole.clear()
            who = self._whole[speaker] = together(together(speaker, self._section), self.by_name)
        return who

    def _event(
        self, number: int, line: str, said: str, speaker: Speaker, matched: Matched | None, crash: int, count: int
    ) -> tuple[Event, float | None]:
        time_s = self.moments.of(line)
        if time_s is not None:
            self.latest_s = time_s
        not_before_s = None if time_s is not None else self.latest_s
        place, who = Place(self.path, number), self._who(speaker)
        if matched is None:
            return Event(place, excerpt(said, crash), None, who, time_s=time_s, count=count), not_before_s
        begin = matched.begin - (len(line) - len(said) if matched.begin > len(said) else 0)
        text, known, about = excerpt(said, begin), matched.entry, matched.about
        return Event(place, text, known, who, about, time_s, count, matched.groups), not_before_s


def _raised(events: list[Event], traceback: Traceback) -> Event:
    """The exception that nobody caught; what caused it, and what is known of that where nothing is known of itself."""
    last = events[-1]
    first = traceback.first
    if first is None:
        return last
    known, groups = last.known, last.groups
    if known is None:
        cause = next((event for event in reversed(events[:-1]) if event.known is not None), None)
        if cause is not None:
            known, groups = cause.known, cause.groups
    return replace(last, known=known, groups=(*groups, ("caused_by", first.text[:300])))
