from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.tiers.fallback import Candidate as Root
from slurm_resilience.checkpoint.tiers.fallback import Nowhere, WriteTo, second_place
from slurm_resilience.checkpoint.tiers.folder_depot import FolderDepot
from slurm_resilience.checkpoint.tiers.publication import Outgoing, Parcel, published_in
from slurm_resilience.checkpoint.tiers.published import Published, PublishedFile
from slurm_resilience.checkpoint.tiers.publisher import Failed, Publisher, Sent, Vanished
from slurm_resilience.checkpoint.tiers.publishing_plan import Candidate, Send, Skip, plan_publishing
from slurm_resilience.checkpoint.tiers.transit import Transit
from tests.unit.checkpoint.tiers.files import NoTime, contents_of, some_bytes

LIVE, GONE, DONE = (True, False), (False, False), (True, True)


@pytest.mark.parametrize(
    ("told", "newest", "expected"),
    [
        pytest.param([], None, [], id="nothing yet"),
        pytest.param([LIVE, LIVE], None, [Send("c1"), Send("c0")], id="the newest first"),
        pytest.param(
            [LIVE, GONE], None, [Skip("c1", "not live any more"), Send("c0")], id="what is forgotten is skipped"
        ),
        pytest.param([LIVE, DONE], None, [Skip("c1", "published already"), Send("c0")], id="what is there stays"),
        pytest.param(
            [LIVE, DONE], 1, [Skip("c1", "published already"), Skip("c0", "not among the newest 1")], id="one"
        ),
        pytest.param(
            [LIVE, LIVE, GONE],
            1,
            [Skip("c2", "not live any more"), Send("c1"), Skip("c0", "not among the newest 1")],
            id="only live ones count",
        ),
    ],
)
def test_what_is_published_next(told: list[tuple[bool, bool]], newest: int | None, expected: list[object]) -> None:
    candidates = [Candidate(f"c{n}", live, published) for n, (live, published) in enumerate(told)]
    assert plan_publishing(candidates, newest=newest) == expected


@given(st.lists(st.tuples(st.booleans(), st.booleans())), st.none() | st.integers(1, 5))
def test_only_live_unpublished_ones_are_sent_and_no_more_than_asked(
    told: list[tuple[bool, bool]], newest: int | None
) -> None:
    candidates = {f"c{n}": Candidate(f"c{n}", live, published) for n, (live, published) in enumerate(told)}
    sent = [
        each.checkpoint for each in plan_publishing(list(candidates.values()), newest=newest) if isinstance(each, Send)
    ]
    assert all(candidates[name].live and not candidates[name].published for name in sent)
    assert newest is None or len(sent) <= newest


def test_publishing_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        plan_publishing([], newest=0)


class Run:
    """A manifest of checkpoints with one file each."""

    def __init__(self, folder: Path, *checkpoints: str) -> None:
        self.folder = folder
        self.live = dict.fromkeys(checkpoints, True)
        self.published: list[str] = []
        for name in checkpoints:
            (folder / name).mkdir(parents=True)
            (folder / name / "rank-00000.h5").write_bytes(some_bytes(3000))

    def look(self) -> list[Candidate]:
        return [Candidate(name, live, name in self.published) for name, live in self.live.items()]

    def parcel(self, checkpoint: str) -> Parcel:
        contents = contents_of(some_bytes(3000), 700)
        file = PublishedFile("rank-00000.h5", contents.size_bytes, contents.identity)
        path = self.folder / checkpoint / file.name
        return Parcel(Published("0123", "night", checkpoint, 1, (file,), ""), (Outgoing(file.name, path, contents),))

    def forget(self, checkpoint: str) -> None:
        self.live[checkpoint] = False
        (self.folder / checkpoint / "rank-00000.h5").unlink()

    def publisher(self, depot: FolderDepot) -> Publisher:
        return Publisher(depot, look=self.look, parcel=self.parcel, record=self.published.append, clock=NoTime())


def test_all_are_published_and_each_is_recorded_when_it_is_there(tmp_path: Path) -> None:
    run, depot = Run(tmp_path / "run", "a", "b"), FolderDepot(tmp_path / "archive")
    assert run.publisher(depot).publish_all(Transit()) == [Sent("b", 3000), Sent("a", 3000)]
    assert run.published == ["b", "a"]
    assert run.publisher(depot).publish_all(Transit()) == []


def test_what_retention_forgets_on_the_way_is_skipped_calmly(tmp_path: Path) -> None:
    run, depot = Run(tmp_path / "run", "a", "b"), FolderDepot(tmp_path / "archive")
    publisher = run.publisher(depot)
    waiting = publisher.to_send()
    run.forget("b")
    assert [publisher.publish_one(name, Transit()) for name in waiting] == [Vanished("b"), Sent("a", 3000)]
    assert published_in(depot) == run.published == ["a"]


def test_one_that_is_damaged_does_not_stop_the_others(tmp_path: Path) -> None:
    run, depot = Run(tmp_path / "run", "a", "b"), FolderDepot(tmp_path / "archive")
    (tmp_path / "run" / "b" / "rank-00000.h5").write_bytes(bytes(3000))
    failed, sent = run.publisher(depot).publish_all(Transit())
    assert isinstance(failed, Failed)
    assert "tensor t0 has the checksum" in failed.why
    assert sent == Sent("a", 3000)


HERE = Root("the run directory", "/shared/run", True, 0)
NODE = Root("the local tier", "/nvme", False, 100)
SCRATCH = Root("the second place", "/scratch", True, None)


def test_a_second_place_that_outlives_the_node_comes_first() -> None:
    choice = second_place(HERE, 28, [NODE, SCRATCH], save_bytes=50)
    assert choice == WriteTo(
        "/scratch",
        "the run directory (/shared/run) is full: this checkpoint goes to the second place (/scratch)",
        commits=True,
    )


def test_what_goes_to_the_node_is_only_staged_and_the_alarm_says_so() -> None:
    choice = second_place(HERE, 5, [NODE], save_bytes=50)
    assert isinstance(choice, WriteTo)
    assert not choice.commits
    assert "refuses to be written to" in choice.alarm
    assert "is lost with the node" in choice.alarm


def test_a_second_place_that_is_too_small_is_none() -> None:
    choice = second_place(HERE, 122, [NODE], save_bytes=500)
    assert choice == Nowhere(
        "the run directory (/shared/run) has no quota left for us, and there is no second place large enough: "
        "the local tier has room for 100 of 500 bytes"
    )
    assert second_place(HERE, None, [], save_bytes=1) == Nowhere(
        "the run directory (/shared/run) refuses to be written to, and there is no second place"
    )
