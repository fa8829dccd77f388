"""A relay's folder as the plugin's relay makes it, with this process, or what `changes` make of it, as its owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from slurm_resilience.process_identity import Identity
from slurm_resilience.signals.runtime_folder import PAGE_BYTES, StopPageWriter


def make_relay_folder(path: Path, *, tasks: int = 1, **changes: object) -> None:
    path.mkdir(mode=0o700)
    owner = replace(Identity.of_this_process(), **changes)  # type: ignore[arg-type]
    (path / "owner.json").write_text(json.dumps(asdict(owner)))
    for page in ("stop", *(f"rank-{task}" for task in range(tasks))):
        (path / page).write_bytes(bytes(PAGE_BYTES))


@contextmanager
def relay_folder(path: Path, *, tasks: int = 1, **changes: object) -> Iterator[StopPageWriter]:
    make_relay_folder(path, tasks=tasks, **changes)
    with StopPageWriter(path) as writer:
        yield writer
