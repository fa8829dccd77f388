"""How fast triage reads logs, against grep with the same patterns, and what the worst logs cost.

    python -m benchmarks.triage [--gib 1] [--bad-mib 128] [--rounds 3] [--json]

The logs of a healthy training of 256 ranks, and a few files each of what is hardest to read. In each round every tool
reads the same files, from the page cache: triage with two processes and with one, `grep -F` with the texts that known
lines have, and `grep -E` with the expressions, as two processes. grep only counts lines; triage also says who, when and
what.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, figure, paired_ratio
from benchmarks.report import REPOSITORY, progress, surroundings, write_results
from benchmarks.text_table import plain_table
from benchmarks.triage.greps import seconds, write_patterns
from benchmarks.triage.logs import KINDS, write_logs
from slurm_resilience.triage.known.table import TABLE

RANKS = 256
LIMIT_S = 200.0
"""Of one grep: what takes longer isn't waited for."""
PROCESSES = 2
Rounds = list[dict[str, Any]]


def read(folder: Path, workers: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.triage.read", str(folder), "--workers", str(workers)]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def measure(kind: str, files: int, file_bytes: int, rounds: int) -> tuple[int, Rounds]:
    found: Rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "logs"
        written = write_logs(folder, kind, files, file_bytes)
        patterns = write_patterns(Path(scratch))
        for number in range(rounds):
            one: dict[str, Any] = {f"triage, {count}": read(folder, count) for count in (PROCESSES, 1)}
            for option, path in patterns.items():
                given_up = any(each[f"grep {option}"] is None for each in found)
                one[f"grep {option}"] = None if given_up else seconds(option, path, folder, PROCESSES, LIMIT_S)
            found.append(one)
            progress(f"{kind}, round {number + 1}: {one[f'triage, {PROCESSES}']['seconds']:.1f} s")
    return written, found


def took(rounds: Rounds, tool: str) -> Figure | None:
    values = [one[tool]["seconds"] if isinstance(one[tool], dict) else one[tool] for one in rounds]
    return None if None in values else figure(values)


def ratio(rounds: Rounds, tool: str) -> Figure | None:
    if any(one[tool] is None for one in rounds):
        return None
    ours = [one[f"triage, {PROCESSES}"]["seconds"] for one in rounds]
    return paired_ratio([one[tool] for one in rounds], ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0, help="of the healthy training's logs")
    parser.add_argument("--bad-mib", type=int, default=128, help="of each kind of the others")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    options = parser.parse_args()
    facts = surroundings()
    value: dict[str, Any] = {
        "surroundings": facts,
        "table": {"entries": len(TABLE), "texts": len({hint for entry in TABLE for hint in entry.hints})},
        "kinds": {},
    }
    rows: list[list[str]] = []
    for kind, (_, what) in KINDS.items():
        files, file_bytes = RANKS, int(options.gib * (1 << 30)) // RANKS
        if kind != "healthy":
            files, file_bytes = 32, (options.bad_mib << 20) // 32
        written, rounds = measure(kind, files, file_bytes, options.rounds)
        value["kinds"][kind] = {"what": what, "files": files, "bytes": written, "rounds": rounds}
        two, one = took(rounds, f"triage, {PROCESSES}"), took(rounds, "triage, 1")
        assert two is not None
        value["kinds"][kind]["median_s"] = dataclasses.asdict(two)
        peak = max(max(each["peak_mib"], each["peak_of_a_worker_mib"]) for r in rounds for each in r.values()
                   if isinstance(each, dict))  # fmt: skip
        cells = [two, one, took(rounds, "grep -F"), took(rounds, "grep -E")]
        ratios = [ratio(rounds, "grep -F"), ratio(rounds, "grep -E")]
        rows.append(
            [kind, f"{written >> 20}", *[each.text() if each else f"over {LIMIT_S:g}" for each in cells],
             *[each.text() if each else "–" for each in ratios], f"{written / two.median / 1e6:.0f}", str(peak)]
        )  # fmt: skip
    write_results("triage", value)
    if options.json:
        print(json.dumps(value, indent=1))
        return
    header = "logs|MiB|triage, 2 processes, s|1 process, s|grep -F, s|grep -E, s|ours/-F|ours/-E|MB/s|peak MiB".split(
        "|"
    )
    print(plain_table(header, rows))


if __name__ == "__main__":
    main()
