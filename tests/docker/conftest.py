"""What only containers can show. All of it is an ordinary user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.cluster import ClusterUser
from tests.clusters.compose import ComposeCluster
from tests.clusters.restore import folder_for, restore
from tests.slurm.jobs import JobsOn


@pytest.fixture
def folder(docker_cluster: ComposeCluster, request: pytest.FixtureRequest) -> Path:
    return folder_for(docker_cluster, request.node.name)


@pytest.fixture
def alice(docker_cluster: ComposeCluster) -> ClusterUser:
    return ClusterUser(docker_cluster, docker_cluster.ordinary_user)


@pytest.fixture
def jobs(docker_cluster: ComposeCluster, alice: ClusterUser, folder: Path) -> Iterator[JobsOn]:
    yield JobsOn(alice, folder)
    restore(docker_cluster)
