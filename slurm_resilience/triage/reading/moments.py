"""When a line was written, as far as it says so itself. Pure.

A time without a zone is taken as the reader's local time; one without a year as the last such day before the file was
last changed. A time of day alone says nothing. Seconds since boot say nothing either, unless it is told when that was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_LOOK_AT = 160
"""Characters from the line's beginning: what stands behind is the message's."""
_WHERE = 40
"""A time that begins later than this is spoken of, unless "AT" stands before it as in Slurm's last words."""
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_CLOCK = r"(?P<{0}H>\d\d):(?P<{0}M>\d\d):(?P<{0}S>\d\d)(?:[.,](?P<{0}f>\d{{1,9}}))?"
_NAMES = "|".join(_MONTHS)
_ISO = (
    r"(?<!\d)(?P<iY>\d{4})[-/](?P<im>\d\d)[-/](?P<id>\d\d)[T _]"
    + _CLOCK.format("i")
    + r"(?: ?(?P<iz>Z|[+-]\d\d:?\d\d)\b)?"
)
_SLASHED = r"(?<![\d/])(?P<um>\d\d)/(?P<ud>\d\d)/(?P<uY>\d{4}),? " + _CLOCK.format("u") + r"(?! ?[AP]M\b)"
"""As Hugging Face's examples write it; elsewhere the day comes first."""
_GLOG = r"(?<![A-Za-z0-9])[IWEF](?P<gm>\d\d)(?P<gd>\d\d) " + _CLOCK.format("g")
_DMESG_T = rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<tm>{_NAMES}) +(?P<td>\d\d?) {_CLOCK.format('t')} (?P<tY>\d{{4}})\]"
_SYSLOG = rf"(?<![A-Za-z])(?P<sm>{_NAMES}) {{1,2}}(?P<sd>\d\d?) {_CLOCK.format('s')}"
_TIME = re.compile(f"{_ISO}|{_SLASHED}|{_GLOG}|{_DMESG_T}|{_SYSLOG}")
_SOME_CLOCK = re.compile(r":\d\d:\d\d")
_SINCE_BOOT = re.compile(r"^(?:<\d+>)?\[ *(\d{1,9}\.\d{1,9})\]")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Moments:
    """How one file's times are read."""

    changed_s: float
    """When the file was last changed, since the epoch."""
    boot_s: float | None = None
    """When its node was started: for a kernel's log."""

    def of(self, line: str) -> float | None:
        """Since the epoch; None where the line has no time, or not enough of one."""
        found = _TIME.search(line, 0, _LOOK_AT) if _SOME_CLOCK.search(line, 0, _LOOK_AT) is not None else None
        if found is None:
            boot = None if self.boot_s is None else _SINCE_BOOT.match(line)
            return None if boot is None or self.boot_s is None else self.boot_s + float(boot[1])
        if found.start() > _WHERE and not line[: found.start()].endswith("AT "):
            return None
        kind = next(name[0] for name, value in found.groupdict().items() if value is not None)
        try:
            return self._seconds(kind, found)
        except (ValueError, OverflowError, OSError):  # the 31st of February, year 0: some number that looks like one
            return None

    def _seconds(self, kind: str, found: re.Match[str]) -> float:
        month_text = found[f"{kind}m"]
        month = _MONTHS.index(month_text) + 1 if month_text in _MONTHS else int(month_text)
        fraction = found[f"{kind}f"]
        microsecond = int((fraction or "0")[:6].ljust(6, "0"))
        clock = (int(found[f"{kind}H"]), int(found[f"{kind}M"]), int(found[f"{kind}S"]), microsecond)
        day = int(found[f"{kind}d"])
        if kind == "u":
            return self._nearest(int(found["uY"]), month, day, clock)
        if kind in "it":
            year = int(found[f"{kind}Y"])
            zone = _zone(found["iz"]) if kind == "i" else None
            return datetime(year, month, day, *clock, tzinfo=zone).timestamp()
        changed = datetime.fromtimestamp(self.changed_s)  # noqa: DTZ006 - local, as the time that it is compared with
        for year in (changed.year, changed.year - 1, changed.year - 2, changed.year - 3):
            try:
                moment = datetime(year, month, day, *clock)  # noqa: DTZ001 - the line names no zone
            except ValueError:  # the 29th of February belongs to another year
                continue
            if moment <= changed + _DAY:
                return moment.timestamp()
        raise ValueError

    def _nearest(self, year: int, first: int, second: int, clock: tuple[int, int, int, int]) -> float:
        """Month and day, in the order that brings it nearer to the file's last change."""
        moments = [
            datetime(year, month, day, *clock).timestamp()  # noqa: DTZ001 - the line names no zone
            for month, day in ((first, second), (second, first))
            if month <= len(_MONTHS)
        ]
        return min(moments, key=lambda moment: abs(moment - self.changed_s))  # none: ValueError


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text == "Z":
        return timezone.utc
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))
