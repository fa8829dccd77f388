"""Depots to test with: a folder, and fsspec's memory with a driver that refuses when told."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.tiers.depot import Depot
from slurm_resilience.checkpoint.tiers.folder_depot import FolderDepot
from slurm_resilience.checkpoint.tiers.object_store import ObjectStore


@dataclass
class Refusing:
    """A driver that counts the calls to it, and raises `error` at those in `at`."""

    driver: Any
    at: set[int] = field(default_factory=set)
    error: Exception = field(default_factory=lambda: OSError(5, "the wire is cut"))
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.driver, name)
        if name.startswith("_") or not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls in self.at:
                raise self.error
            return found(*arguments, **options)

        return call


def memory_store() -> ObjectStore:
    pytest.importorskip("fsspec")
    return ObjectStore(f"memory://{uuid.uuid4().hex}/runs")


def refuse_at(store: ObjectStore, *at: int, error: Exception | None = None) -> Refusing:
    driver, root = store._at("")
    refusing = Refusing(driver.driver if isinstance(driver, Refusing) else driver, set(at))
    refusing.error = error or refusing.error
    store._opened = (refusing, root)
    return refusing


@pytest.fixture(params=["folder", "memory"])
def depot(request: pytest.FixtureRequest, tmp_path: Path) -> Depot:
    return FolderDepot(tmp_path / "archive") if request.param == "folder" else memory_store()
