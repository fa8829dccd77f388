"""Where a run is published: refused before it starts, or counted in its manifest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointForgotten, CheckpointPublished, checkpoint_id
from slurm_resilience.supervisor.destination import Waiting, understand_publishing, waiting_for
from slurm_resilience.supervisor.request import Publishing
from tests.unit.cli.told_runs import saved, started, tell

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("to", "limit", "environment", "understood"),
    [
        (None, None, {}, None),
        (None, None, {"SLURM_RESILIENCE_PUBLISH": ""}, None),
        (None, None, {"SLURM_RESILIENCE_PUBLISH_LIMIT": "1MB/s"}, None),
        ("/a/{run}-{run_id}", None, {}, Publishing("/a/{run}-{run_id}", None)),
        ("/$X", "2GB/s", {"X": "x"}, Publishing("/$X", "2GB/s")),
        (None, None, {"SLURM_RESILIENCE_PUBLISH": "/e"}, Publishing("/e", None)),
        (
            "/a",
            "1MB/s",
            {"SLURM_RESILIENCE_PUBLISH": "/e", "SLURM_RESILIENCE_PUBLISH_LIMIT": "9MB/s"},
            Publishing("/a", "1MB/s"),
        ),
        ("/a", None, {"SLURM_RESILIENCE_PUBLISH_LIMIT": "9MB/s"}, Publishing("/a", "9MB/s")),
    ],
)
def test_an_option_comes_before_the_environment(
    to: str | None, limit: str | None, environment: dict[str, str], understood: Publishing | None
) -> None:
    assert understand_publishing(to, limit, environment) == understood


@pytest.mark.parametrize(
    ("to", "limit", "environment", "about"),
    [
        ("runs/a", None, {}, "--publish: 'runs/a' is no place"),
        ("/$NOBODY", None, {}, "--publish: .* needs the environment variable NOBODY"),
        ("/{job}", None, {}, "--publish: .*{job} can't be filled in"),
        ("s3://me:secret@bucket/x", None, {}, "--publish: a place must not hold a password"),
        (None, None, {"SLURM_RESILIENCE_PUBLISH": "here"}, "SLURM_RESILIENCE_PUBLISH: 'here' is no place"),
        ("/a", "fast", {}, "--publish-limit: 'fast' is no rate"),
        ("/a", None, {"SLURM_RESILIENCE_PUBLISH_LIMIT": "0"}, "SLURM_RESILIENCE_PUBLISH_LIMIT: '0' is no rate"),
        (None, "1MB/s", {}, "--publish-limit: there is no --publish"),
    ],
)
def test_what_can_not_work_is_refused_by_the_name_of_who_asked(
    to: str | None, limit: str | None, environment: dict[str, str], about: str
) -> None:
    with pytest.raises(ConfigurationError, match=about) as refused:
        understand_publishing(to, limit, environment)
    assert "\n" not in str(refused.value)


def test_a_url_that_no_driver_serves_is_refused() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(ConfigurationError, match=r"--publish: gopher2://x/y can't be reached: .*gopher2"):
        understand_publishing("gopher2://x/y", None, {})
    assert understand_publishing("memory://x/y", None, {}) == Publishing("memory://x/y", None)


def test_a_url_without_fsspec_is_refused_with_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "python"  # an interpreter that sees no installed package
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ConfigurationError, match=r"no fsspec here: pip install 'slurm-resilience\[object-store\]'"):
        understand_publishing("s3://bucket/x", None, {}, python=str(bare))
    assert understand_publishing("/folder", None, {}, python=str(bare)) is not None


def test_only_what_is_live_and_not_at_this_place_is_waited_for(tmp_path: Path) -> None:
    published = [CheckpointPublished(checkpoint_id(step, 1), where) for step, where in ((10, "/a/run"), (20, "/b"))]
    forgotten = CheckpointForgotten(checkpoint_id(40, 1), "retention")
    steps = [saved(step, 1) for step in (10, 20, 30, 40)]
    run = tell(tmp_path / "run", started(1), *steps, *published, forgotten)
    chain = Chain.of(Journal(run).read())
    waiting = waiting_for(chain, Publishing("/$TOP/run", None), {"TOP": "a"})
    assert waiting == Waiting(2, 3, "/a/run")
    assert str(waiting) == "2 checkpoints"


def test_who_publishes_nothing_loads_nothing_for_it() -> None:
    program = (
        "import slurm_resilience.cli.srun_resilient, slurm_resilience.supervisor.supervise, sys\n"
        "print(*sorted(sys.modules), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = done.stdout.split()
    wanted = [f"slurm_resilience.supervisor.{name}" for name in ("destination", "publisher", "patience")]
    assert not {"fsspec", "ctypes", "slurm_resilience.checkpoint.tiers.places", *wanted} & set(loaded)
