"""`slurm-resilience triage --watch`: a line for each trouble while the run runs, and no more than that."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slurm_resilience.clock import Clock, SystemClock
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.triage_of_job import job_ref
from slurm_resilience.supervisor.triage_watch import Watcher
from slurm_resilience.triage.account.watching import Alarm, Watched, watch

if TYPE_CHECKING:
    from slurm_resilience.supervisor.triage_of_run import Asked


def watch_it(
    what: tuple[str, ...],
    number: int | None,
    asked: Asked,
    *,
    as_json: bool,
    silent_after_s: float | None,
    every_s: float,
    clock: Clock | None = None,
) -> bool:
    """True: it has ended, and its account is to be told. False: somebody pressed Ctrl-C."""
    clock = clock or SystemClock()
    watcher = _watcher(what, number, asked, clock)
    watched = Watched(silent_after_s)
    try:
        while True:
            look = watcher.look()
            watched, alarms = watch(watched, look)
            for alarm in alarms:
                _tell(alarm, clock, as_json)
            if watcher.over():
                return True
            clock.sleep(every_s)
    except KeyboardInterrupt:
        return False


def _watcher(what: tuple[str, ...], number: int | None, asked: Asked, clock: Clock) -> Watcher:
    first = Path(what[0])
    more = replace(asked, extra=(*asked.extra, *map(Path, what[1:])))
    if RunDirectory(first).journal.is_file():
        return Watcher(more, clock, run=first, number=number)
    job = None if first.exists() else job_ref(what[0])
    if job is not None:
        return Watcher(more, clock, job=job)
    if not first.exists():
        raise ConfigurationError(f"{first}: there is no such file or directory")
    return Watcher(replace(more, extra=(first, *more.extra)), clock)


def _tell(alarm: Alarm, clock: Clock, as_json: bool) -> None:
    now_s = clock.now_s()
    if as_json:
        words = {"alarm": alarm.kind.value, "sentence": alarm.sentence, "place": alarm.place, "time_s": now_s}
        click.echo(json.dumps({"format": 1, **words}))
        return
    time = datetime.fromtimestamp(now_s).astimezone().strftime("%H:%M:%S")
    place = "" if alarm.place is None else f" ({alarm.place})"
    click.echo(f"{time}  {alarm.kind.value}: {' '.join(alarm.sentence.split())}{place}")
