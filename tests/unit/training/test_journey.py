"""Who fetches which part, when nodes hold what they hold."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.records import (
    AttemptStarted,
    CheckpointCommitted,
    CheckpointStaged,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.training.journey import Fetch, Journey, OutOfReach, Seen, Sighting, plan_journeys

NAME = checkpoint_id(20, 1)
BEGUN: list[Record] = [RunCreated(RunId("r"), "test"), AttemptStarted(1, "local", (), "host")]
STAGED = CheckpointStaged(NAME, 20, 1, 2, "/nvme")


def chain_of(*records: Record) -> Chain:
    return Chain.of(Line(number + 1, 0.0, record) for number, record in enumerate([*BEGUN, *records]))


def seen(*ranks: set[int], checkpoint: str = NAME, place: str = "/nvme") -> list[Seen]:
    return [{(place, checkpoint): Sighting(frozenset(found), 2)} if found else {} for found in ranks]


@pytest.mark.parametrize(
    ("by_rank", "fetches"),
    [
        pytest.param(seen({0, 1}, {0, 1}), [(0, 0), (1, 1)], id="shared: each its own"),
        pytest.param(seen({0}, {1}), [(0, 0), (1, 1)], id="on the nodes: each its own"),
        pytest.param(seen({1}, {0}), [(0, 1), (1, 0)], id="the nodes have changed places"),
        pytest.param(seen({0, 1}), [(0, 0), (1, 0)], id="fewer ranks than before"),
        pytest.param(seen(set(), set(), {0, 1}, {0, 1}), [(0, 2), (1, 3)], id="others see them: shared out evenly"),
    ],
)
def test_every_part_is_fetched_by_a_rank_that_sees_it(by_rank: list[Seen], fetches: list[tuple[int, int]]) -> None:
    expected = tuple(Fetch(part, by, "/nvme") for part, by in fetches)
    assert plan_journeys(by_rank, chain_of(STAGED), 2) == [Journey(NAME, expected)]


@pytest.mark.parametrize(
    ("by_rank", "told", "out_of_reach"),
    [
        pytest.param(seen({0}, {0}), True, "the part of rank 1", id="a node is gone"),
        pytest.param(seen({0}, {0}), False, None, id="half a set that nobody spoke of"),
        pytest.param(seen(set(), set()), True, "any part", id="everything is gone"),
    ],
)
def test_what_the_manifest_tells_of_and_nobody_finds_is_named(
    by_rank: list[Seen], told: bool, out_of_reach: str | None
) -> None:
    planned = plan_journeys(by_rank, chain_of(*([STAGED] if told else [])), 2)
    missed = [each for each in planned if isinstance(each, OutOfReach)]
    assert [each.why.partition("finds ")[2] for each in missed] == ([] if out_of_reach is None else [out_of_reach])


def test_the_newest_is_tried_first_and_none_that_is_older_than_what_is_durable() -> None:
    durable = CheckpointCommitted(checkpoint_id(20, 1), 20, 1, SaveReason.PERIODIC, 1, (), 1.0)
    names = [checkpoint_id(10, 1), checkpoint_id(20, 1, final=True), checkpoint_id(30, 1), checkpoint_id(40, 2)]
    everything: Seen = {("/nvme", name): Sighting(frozenset({0}), 1) for name in names}
    planned = plan_journeys([everything], chain_of(durable), 2)
    assert [each.checkpoint for each in planned] == [names[2], names[1]]
