"""A run for every test, and what its training ends with if nobody disturbs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.run_under_test import Run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "run")
    yield run
    for ranks in run.attempts:
        ranks.end()


@pytest.fixture(scope="session")
def undisturbed_weights(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What the training ends with if nothing happens to it."""
    run = Run(tmp_path_factory.mktemp("undisturbed") / "run")
    ranks = run.start()
    try:
        assert ranks.wait() == [0, 0], ranks.said()
        assert len(ranks.weights()) == 1
        return ranks.weights()
    finally:
        ranks.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several attempts of several processes each: on two busy cores they take minutes."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
