"""Spoil parts and read them: python -m tests.fuzz --minutes 5 --seed 7."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import campaign


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="read just this one again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.only is None:
            report = campaign(Path(folder) / "fuzz", seed=asked.seed, seconds=asked.minutes * 60)
        else:
            report = campaign(Path(folder) / "fuzz", seed=asked.seed, first=asked.only, count=1)
    for finding in report.findings:
        print(finding)
    print(report.table())
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
