"""Every test of a check runs with each shell and set of tools that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .machine import SHELLS, Machine, installed


@pytest.fixture(params=[kind for kind in SHELLS if installed(kind)])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    kind: str = request.param
    return Machine(tmp_path, kind).build()
