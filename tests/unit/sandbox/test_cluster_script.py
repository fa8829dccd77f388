"""scripts/cluster, with a docker that only says how it was called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "cluster"


@pytest.mark.parametrize("typed", ["shared", "./shared", "a/../shared"])
def test_a_shared_folder_counts_from_where_it_is_typed(tmp_path: Path, typed: str) -> None:
    """`shared` alone would be a volume for compose, and `./shared` one in its own folder."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\n[ "$1 $4" != "compose down" ] || echo "$CLUSTER_SHARED"\n')
    docker.chmod(0o755)
    done = subprocess.run(
        ["bash", str(SCRIPT), "down"],
        env={"PATH": f"{docker.parent}:/usr/bin:/bin", "CLUSTER_SHARED": typed},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"{tmp_path}/shared\n"
