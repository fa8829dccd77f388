"""Reads many spoilt parts in processes of their own, and collects what went wrong."""

from __future__ import annotations

import collections
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 240.0
"""For one part of 2 MB, on a busy machine."""
BATCH = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    seed: int
    number: int
    kind: str
    what: str
    wrong: str

    def __str__(self) -> str:
        return f"--seed {self.seed} --only {self.number}: {self.wrong} ({self.kind}; {self.what})"


@dataclass(slots=True)
class Report:
    tried: collections.Counter[str] = field(default_factory=collections.Counter)
    findings: list[Finding] = field(default_factory=list)

    def table(self) -> str:
        found = collections.Counter(finding.kind for finding in self.findings)
        rows = [f"{kind:<12} {count:>8} read {found[kind]:>6} wrong" for kind, count in sorted(self.tried.items())]
        return "\n".join([*rows, f"{'all':<12} {self.tried.total():>8} read {len(self.findings):>6} wrong"])


def campaign(folder: Path, *, seed: int, first: int = 0, count: int | None = None, seconds: float = 1e9) -> Report:
    """`count` parts, or as many as can be read in `seconds`."""
    report = Report()
    number = first
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s and (count is None or number < first + count):
        batch = BATCH if count is None else min(BATCH, first + count - number)
        number = _Batch(folder, seed, number, batch, until_s, report).run()
    return report


@dataclass(slots=True)
class _Batch:
    folder: Path
    seed: int
    first: int
    count: int
    until_s: float
    report: Report
    _number: int = -1
    _doing: dict[str, str] = field(default_factory=dict)

    def run(self) -> int:
        """The number to go on with."""
        command = [sys.executable, "-m", "tests.fuzz.reader", str(self.folder)]
        command += [str(self.seed), str(self.first), str(self.count)]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            lines = _lines_of(reader.stdout)
            try:
                while (line := lines.get(timeout=PATIENCE_S)) is not None:
                    self._hear(line)
                    if line == "end":
                        return self.first + self.count
                    if time.monotonic() > self.until_s:
                        return self.first + self.count
                code = reader.wait()
                if self._number < self.first:
                    raise RuntimeError(f"the reader left with {code} before it began; what it said is above")
                self._find(f"died of {_name(code)}")
            except queue.Empty:
                self._find(f"hung for more than {PATIENCE_S:g} s")
            finally:
                reader.kill()
        return self._number + 1

    def _hear(self, line: str) -> None:
        if line == "end":
            return
        said: Any = json.loads(line)
        if isinstance(said, int):
            self._number = said
        elif "finding" in said:
            self._find(said["finding"])
        else:
            self._doing = said
            self.report.tried[said["kind"]] += 1

    def _find(self, wrong: str) -> None:
        doing = self._doing
        what = f"{doing.get('sample')}: {doing.get('what')}"
        self.report.findings.append(Finding(self.seed, self._number, doing.get("kind", "?"), what, wrong))


def _lines_of(stream: IO[str]) -> queue.Queue[str | None]:
    lines: queue.Queue[str | None] = queue.Queue()

    def follow() -> None:
        for line in stream:
            lines.put(line.strip())
        lines.put(None)

    threading.Thread(target=follow, daemon=True).start()
    return lines


def _name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"
