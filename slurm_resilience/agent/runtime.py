"""The node's runtime folder: made with its pages reserved, found again by nobody else, removed at the end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from slurm_resilience.agent.log import Log
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.process_identity import Identity, Liveness, liveness
from slurm_resilience.signals.runtime_folder import PAGE_BYTES

_OWNER = "owner.json"


def make_runtime_folder(parent: Path, name: str, local_ranks: Iterable[int], log: Log) -> Path:
    """Make the folder, mode 700, under `parent`, or under $TMPDIR where that is not possible (and say so).

    The pages are reserved here: a page first written while /dev/shm is full (DataLoader workers fill it) would
    kill its writer by SIGBUS. Raises ConfigurationError where neither place takes it.
    """
    ranks = list(local_ranks)
    complaints = []
    for place in dict.fromkeys([parent, Path(tempfile.gettempdir())]):
        try:
            _remove_leftovers(place, log)
            folder = _make(place, name, ranks)
        except OSError as error:
            complaints.append(f"{place}: {error.strerror}")
            continue
        if complaints:
            log.say(f"the runtime folder is {folder}, because {complaints[0]}")
        return folder
    raise ConfigurationError(f"no place for the runtime folder: {'; '.join(complaints)}")


def folder_name(run_id: str, attempt: int, node_id: int, local_task: int | None) -> str:
    task = "" if local_task is None else f"-t{local_task}"
    tame = re.sub(r"[^A-Za-z0-9_.]", "_", run_id)[:64]
    return f"{_prefix()}{tame}-a{attempt:04d}-n{node_id}{task}"


def _prefix() -> str:
    return f"slurm-resilience-{os.getuid()}-"


def _make(place: Path, name: str, local_ranks: list[int]) -> Path:
    unnamed = Path(tempfile.mkdtemp(prefix=f".{_prefix()}", dir=place))  # mode 700
    try:
        (unnamed / _OWNER).write_text(json.dumps(asdict(Identity.of_this_process())))
        for page in ["stop", *(f"rank-{local_rank}" for local_rank in local_ranks)]:
            descriptor = os.open(unnamed / page, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, PAGE_BYTES)
            finally:
                os.close(descriptor)
        folder = place / name
        try:
            unnamed.rename(folder)  # with its owner inside: nobody ever takes it for a leftover
        except OSError:  # the name is taken by somebody who may be alive
            folder = Path(f"{folder}-{unnamed.name.rpartition('-')[2]}")
            unnamed.rename(folder)
    except BaseException:
        shutil.rmtree(unnamed, ignore_errors=True)
        raise
    return folder


def _remove_leftovers(place: Path, log: Log) -> None:
    for folder in [*place.glob(f"{_prefix()}*"), *place.glob(f".{_prefix()}*")]:
        # Somebody else may be removing it, or it tells us nothing: then it is not ours to judge.
        with contextlib.suppress(OSError, ValueError, TypeError):
            owner = Identity(**json.loads((folder / _OWNER).read_text()))
            if folder.stat().st_uid == os.getuid() and liveness(owner) is Liveness.GONE:
                shutil.rmtree(folder)
                log.say(f"removed {folder}, left by process {owner.pid}")
