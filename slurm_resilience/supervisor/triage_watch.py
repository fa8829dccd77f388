"""Looks at a run (or a job) while it runs, from outside: outputs, agents' records, journal, kernel log."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience import command
from slurm_resilience.clock import Clock
from slurm_resilience.errors import CommandError, ManifestError, SlurmError
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.client import JobRef, JobState
from slurm_resilience.supervisor.pulse import SILENT_AFTER_S, Pulse
from slurm_resilience.supervisor.triage_of_run import Asked, choose_attempt, logs_of_attempt, outputs_of_job
from slurm_resilience.supervisor.witnesses import agents_and_beats
from slurm_resilience.triage.account.case import sort_out
from slurm_resilience.triage.account.watching import Look
from slurm_resilience.triage.event import Event, Place
from slurm_resilience.triage.known.table import TABLE, known
from slurm_resilience.triage.reading.read_logs import read_logs

ASK_SLURM_EVERY_S = 30.0
DMESG_S = 5.0
_OVER = frozenset(JobState) - {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN}


@dataclass
class Watcher:
    """`look` as often as wanted, until `over`. One of `run` and `job` is given, or neither: files only."""

    asked: Asked
    clock: Clock
    run: Path | None = None
    job: str | None = None
    number: int | None = None
    _read_to: dict[Path, int] = field(default_factory=dict)
    _line_ends: dict[Path, int] = field(default_factory=dict)
    _pulse: Pulse = field(default_factory=lambda: Pulse(SILENT_AFTER_S))
    _attempt: Attempt | None = None
    _asked_s: float | None = None
    _job_over: bool = False
    _kernel: frozenset[str] | None = None

    def over(self) -> bool:
        """Whether what is watched has ended, as far as anybody can tell."""
        if self.run is not None:
            return self._attempt is not None and self._attempt.ended is not None
        return self._job_over

    def look(self) -> Look:
        now_s = self.clock.monotonic_s()
        logs = self._logs(now_s)
        sizes, events = self._new(logs)
        steps: dict[int, int] = {}
        silent: tuple[str, ...] = ()
        saves: tuple[str, ...] = ()
        if self.run is not None and self._attempt is not None:
            records, beats = agents_and_beats(RunDirectory(self.run), self._attempt.number, lambda _: None)
            steps = {end.rank: end.step for record in records for end in record.ranks if end.step >= 0}
            hosts = {record.node_id: record.host for record in records}
            silent = tuple(hosts[agent] for agent in self._pulse.silent(beats, now_s))
            saves = tuple(failed.why for failed in self._attempt.saves_failed)
        return Look(now_s, sizes, steps, (*events, *self._of_the_kernel()), saves, silent)

    def _logs(self, now_s: float) -> Sequence[Path]:
        if self.run is not None:
            # What can't be read now may be read at the next look; the last one seen is watched on.
            with contextlib.suppress(ManifestError):
                chain = Chain.of(Journal(RunDirectory(self.run)).read())
                newest = self._attempt.number if self._attempt is not None else self.number
                if newest is None and chain.newest_attempt is not None:
                    newest = chain.newest_attempt.number
                self._attempt = choose_attempt(self.run, chain, newest)
            if self._attempt is None:
                return ()
            logs, since = logs_of_attempt(RunDirectory(self.run), self._attempt, self.asked)
            for path, byte in since.items():
                self._read_to.setdefault(path, byte)
            return logs
        if self.job is not None:
            self._ask_slurm(self.job, now_s)
            return (*self.asked.extra, *outputs_of_job(self.job, (), self.asked))
        return self.asked.extra

    def _ask_slurm(self, job: str, now_s: float) -> None:
        if self.asked.slurm is None or (self._asked_s is not None and now_s - self._asked_s < ASK_SLURM_EVERY_S):
            return
        self._asked_s = now_s
        with contextlib.suppress(SlurmError):
            record = self.asked.slurm.job(JobRef(job))
            self._job_over = record is None or record.state in _OVER

    def _new(self, logs: Sequence[Path]) -> tuple[dict[str, int], tuple[Event, ...]]:
        """The files' sizes, and what has come since the last look."""
        sizes: dict[str, int] = {}
        grown: list[Path] = []
        for path in sort_out(logs).logs:
            with contextlib.suppress(OSError):
                sizes[str(path)] = size = path.stat().st_size
                if size < self._read_to.get(path, 0):
                    self._read_to[path] = 0  # it was cut off and written anew
                if size > self._read_to.get(path, 0):
                    grown.append(path)
        since = {path: self._read_to.get(path, 0) for path in grown}
        before = {path: self._line_ends[path] for path in grown if since[path] and path in self._line_ends}
        report = read_logs(grown, TABLE, workers=1, since=since, lines_before=before)
        for file in report.files:
            path = Path(file.path)
            packed = file.size_bytes > sizes.get(file.path, 0)  # then it is told unpacked, and read anew if it grows
            self._read_to[path] = sizes[file.path] if packed else since[path] + file.size_bytes
            if not packed:
                self._line_ends[path] = file.line_ends
        return sizes, report.events

    def _of_the_kernel(self) -> tuple[Event, ...]:
        """New lines of this host's kernel log that some entry knows; nothing where it may not be read."""
        try:
            done = command.run(["dmesg"], timeout_s=DMESG_S)
        except CommandError:
            return ()
        if done.code != 0:
            return ()
        lines = [(at, line) for at, line in enumerate(done.out.splitlines(), 1) if line]
        before, self._kernel = self._kernel, frozenset(line for _, line in lines)
        if before is None:
            return ()
        new = [(at, line, known(line)) for at, line in lines if line not in before]
        return tuple(Event(Place("dmesg", at), line[:300], entry) for at, line, entry in new if entry is not None)
