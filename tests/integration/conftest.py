"""The same tests on the embedded cluster and on the cluster of containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.cluster import ClusterUnderTest, ClusterUser, Impossible
from tests.clusters.restore import folder_for, restore
from tests.slurm.jobs import JobsOn


@pytest.fixture(scope="session", params=["embedded", "docker"])
def cluster_under_test(request: pytest.FixtureRequest) -> ClusterUnderTest:
    """Which of them a test runs on: see --slurm, and the marker quick."""
    cluster: ClusterUnderTest = request.getfixturevalue(f"{request.param}_cluster")
    return cluster


@pytest.fixture
def folder(cluster_under_test: ClusterUnderTest, request: pytest.FixtureRequest) -> Path:
    return folder_for(cluster_under_test, request.node.name)


@pytest.fixture
def jobs(cluster_under_test: ClusterUnderTest, folder: Path) -> Iterator[JobsOn]:
    """An ordinary user's."""
    user = cluster_under_test.ordinary_user
    try:
        cluster_under_test.run("true", user=user)
    except Impossible as impossible:
        pytest.skip(str(impossible))
    yield JobsOn(ClusterUser(cluster_under_test, user), folder)
    restore(cluster_under_test)


@pytest.fixture
def owners_jobs(cluster_under_test: ClusterUnderTest, folder: Path) -> Iterator[JobsOn]:
    """The cluster's owner's: root's, as a rule."""
    yield JobsOn(ClusterUser(cluster_under_test), folder)
    restore(cluster_under_test)
