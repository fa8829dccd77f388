"""What every benchmark says with its figures: where it ran, with what, and a file with all of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox.find import find_slurm

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"


def progress(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def surroundings() -> dict[str, Any]:
    """Facts about the machine and the software; a busy machine shows in the load."""
    try:
        slurm: str | None = find_slurm().version_text
    except ConfigurationError:
        slurm = None
    return {
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),  # importing it takes seconds, and nobody here needs it
        "slurm": slurm,
        "date": time.strftime("%Y-%m-%d"),
    }


def write_results(name: str, value: Mapping[str, Any]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(value, indent=1) + "\n")
    return path
