"""Reads a folder in a process of its own, and says how long it took and what it needed."""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from slurm_resilience.triage.known.table import TABLE
from slurm_resilience.triage.reading.read_logs import read_logs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    begun_s = time.perf_counter()
    report = read_logs([options.folder], TABLE, workers=options.workers)
    took_s = time.perf_counter() - begun_s
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        json.dumps(
            {
                "seconds": took_s,
                "processor_s": own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime,
                "bytes": report.read_bytes,
                "events": len(report.events),
                "said": sum(event.count for event in report.events),
                "left_out": sum(file.left_out for file in report.files),
                "peak_mib": own.ru_maxrss >> 10,
                "peak_of_a_worker_mib": workers.ru_maxrss >> 10,
            }
        )
    )


if __name__ == "__main__":
    main()
