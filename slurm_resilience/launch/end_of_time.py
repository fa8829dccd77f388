"""The end of the job's time as it is now: written by the supervisor when Slurm moves it, read by the node agents."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_resilience.durable_file import replace_durably

FORMAT = 1


@dataclass(frozen=True, slots=True)
class EndOfTime:
    end_s: float
    """Seconds since the epoch, by the controller's clock."""
    stop_before_end_s: float
    """How long before it the ranks are asked to stop."""


def write_end_of_time(path: Path, end: EndOfTime) -> None:
    replace_durably(path, json.dumps({**asdict(end), "format": FORMAT}).encode())


def read_end_of_time(data: bytes) -> EndOfTime:
    """Raises ValueError, KeyError or TypeError for what this version can't read."""
    value = json.loads(data)
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']!r} is another version's")
    return EndOfTime(float(value["end_s"]), float(value["stop_before_end_s"]))
