"""`checkpoints quarantine` and `release`, and who else keeps their hands off what is in quarantine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.publishing import candidates, take_in
from slurm_resilience.manifest.records import (
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointPinned,
    CheckpointQuarantined,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.unit.cli.test_checkpoints import call
from tests.unit.cli.test_checkpoints_prune import made, on_disk
from tests.unit.cli.told_runs import saved, started, tell

OLD, NEW = checkpoint_id(10, 1), checkpoint_id(20, 1)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return made(tmp_path / "run", 10, 20)


def chain_of(run: RunDirectory) -> Chain:
    return Chain.of(Journal(run).read())


def loads(run: RunDirectory) -> list[int]:
    return [each.committed.step for each in chain_of(run).loadable()]


def test_what_is_put_aside_is_not_loaded_until_it_is_released(run: RunDirectory) -> None:
    text = call("quarantine", run.path, "newest", "--why", "the loss is NaN in it")
    assert f"{NEW} is in quarantine: the loss is NaN in it\nthe next attempt goes on from step 10\n" in text
    assert f"`slurm-resilience checkpoints release {run.path} {NEW}`" in text
    assert loads(run) == [10]
    assert "quarantined: the loss is NaN in it" in call("list", run.path)
    text = call("release", run.path, NEW)
    assert text == f"{NEW} is released (the loss is NaN in it): the next attempt goes on from step 20\n"
    assert loads(run) == [20, 10]


@pytest.mark.parametrize("command", ["quarantine", "release"])
def test_a_dry_run_says_what_would_be_and_writes_nothing(run: RunDirectory, command: str) -> None:
    if command == "release":
        call("quarantine", run.path, NEW)
    before = run.journal.read_bytes()
    assert "would be" in call(command, run.path, NEW, "--dry-run")
    assert json.loads(call(command, run.path, NEW, "--dry-run", "--json"))["done"] is False
    assert run.journal.read_bytes() == before


def test_twice_is_once(run: RunDirectory) -> None:
    call("quarantine", run.path, NEW, "--why", "first")
    before = run.journal.read_bytes()
    assert call("quarantine", run.path, NEW, "--why", "second") == f"{NEW} is in quarantine already: first\n"
    assert run.journal.read_bytes() == before
    call("release", run.path, NEW)
    assert call("release", run.path, NEW) == f"{NEW} is not in quarantine: it is live\n"


def test_json_says_what_was_done_and_where_the_run_goes_on(run: RunDirectory) -> None:
    said = json.loads(call("quarantine", run.path, NEW, "--why", "w", "--json"))
    assert said == {"checkpoint": NEW, "quarantined": "w", "done": True, "next_step": 10}
    assert json.loads(call("release", run.path, NEW, "--json")) == {"checkpoint": NEW, "done": True, "next_step": 20}


def test_a_person_may_put_the_last_one_aside_and_is_told_what_that_means(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10)
    assert "--from-scratch" in call("quarantine", run.path, OLD)
    assert loads(run) == []


def test_what_is_damaged_or_forgotten_needs_no_quarantine(run: RunDirectory) -> None:
    Journal(run).append(CheckpointDamaged(NEW, 1, "torn"), CheckpointForgotten(OLD, "old"))
    assert "never loaded anyway" in call("quarantine", run.path, NEW, code=78)
    assert "forgotten" in call("quarantine", run.path, OLD, code=78)


def test_it_is_put_aside_by_the_newest_attempt_so_that_nothing_before_counts(run: RunDirectory) -> None:
    Journal(run).append(started(2))
    call("quarantine", run.path, NEW)
    assert [attempt.quarantined for attempt in chain_of(run).attempts] == [(), (NEW,)]


def test_prune_leaves_it_alone_unless_it_is_asked_to(run: RunDirectory) -> None:
    call("quarantine", run.path, NEW)
    call("prune", run.path, "--keep-last=1", "--yes")
    assert on_disk(run) == [OLD, NEW]
    assert "it is in quarantine" in call("prune", run.path, "--keep-last=1", "--quarantined", "--yes")
    assert on_disk(run) == [OLD]


def test_prune_keeps_what_is_pinned_and_the_last_ones_even_in_quarantine(run: RunDirectory) -> None:
    Journal(run).append(CheckpointPinned(NEW, "to look at"))
    call("quarantine", run.path, NEW)
    call("prune", run.path, "--keep-last=1", "--quarantined", "--yes")
    assert on_disk(run) == [OLD, NEW]
    call("quarantine", run.path, OLD)
    assert "none is left to load" in call("prune", run.path, "--keep-last=1", "--quarantined", "--yes")
    assert on_disk(run) == [OLD, NEW]


def test_nobody_publishes_it_by_himself(run: RunDirectory) -> None:
    call("quarantine", run.path, NEW)
    assert [each.checkpoint for each in candidates(chain_of(run), "/there") if each.live] == [OLD]


def test_fetching_does_not_make_it_live_again(run: RunDirectory) -> None:
    Journal(run).append(CheckpointQuarantined(NEW, 1, "w"))
    before = run.journal.read_bytes()
    assert not take_in(Journal(run), saved(20, 1), "/there", pin=True)
    assert run.journal.read_bytes() == before
    states = {each.committed.checkpoint: each.state for each in chain_of(run).checkpoints}
    assert states[NEW] is CheckpointState.QUARANTINED


def test_the_shell_completes_what_can_be_released(run: RunDirectory) -> None:
    import click

    from slurm_resilience.cli.checkpoints.named import complete_quarantined
    from slurm_resilience.cli.checkpoints.release import release

    call("quarantine", run.path, NEW, "--why", "w")
    context = click.Context(release)
    context.params["run"] = run.path
    found = complete_quarantined(context, release.params[1], "step")
    assert [(each.value, each.help) for each in found] == [(NEW, "w")]
    context.params["run"] = run.path / "nowhere"
    assert complete_quarantined(context, release.params[1], "") == []


def test_what_is_in_quarantine_is_fetched_from_nowhere(run: RunDirectory) -> None:
    from slurm_resilience.checkpoint.tiers.published import Published
    from slurm_resilience.cli.fetch import _check

    Journal(run).append(CheckpointQuarantined(NEW, 1, "the loss is NaN"))
    note = Published(run_id=chain_of(run).run_id, run="night shift", checkpoint=NEW, step=20, files=(), line="")
    with pytest.raises(ConfigurationError, match=r"in quarantine.*the loss is NaN.*checkpoints release"):
        _check(Journal(run), note, saved(20, 1), other_run=False)
    _check(Journal(run), note, saved(10, 1), other_run=False)


def test_a_run_without_it_is_as_it_was(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    assert "no checkpoint" in call("quarantine", run.path, "newest", code=78)
