"""The pages through which a node's agent and ranks meet."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.signals.runtime_folder import (
    RankPage,
    RankPageReader,
    RankPageWriter,
    RankPhase,
    StopPageReader,
    StopPageWriter,
    rank_pages,
)
from slurm_resilience.signals.stop_request import StopReason, StopRequest

PAGE = RankPage(RankPhase.STEPPING, 3, 1, 4711, 120, -1, 100, 12.5)


def test_a_page_that_nobody_wrote_says_nothing(tmp_path: Path) -> None:
    with StopPageWriter(tmp_path), StopPageReader(tmp_path) as reader:
        assert not reader.asked()
        assert reader.read() is None


@given(because=st.text(), deadline=st.floats(0, 1e9) | st.just(float("inf")), reason=st.sampled_from(StopReason))
def test_a_request_arrives_as_it_was_written(because: str, deadline: float, reason: StopReason) -> None:
    with tempfile.TemporaryDirectory() as folder, StopPageWriter(Path(folder)) as writer:
        writer.write(StopRequest(reason, because, 1.0, deadline))
        with StopPageReader(Path(folder)) as reader:
            read = reader.read()
    assert read is not None
    assert (read.reason, read.deadline_s) == (reason, deadline)
    assert because.encode().startswith(read.because.rstrip("\ufffd").encode())


def test_a_reason_with_a_name_that_is_no_utf_8_arrives_too(tmp_path: Path) -> None:
    with StopPageWriter(tmp_path) as writer, StopPageReader(tmp_path) as reader:
        writer.write(StopRequest(StopReason.PEER_FAILED, "/runs/\udcff is gone", 1.0, 2.0))
        assert reader.read() == StopRequest(StopReason.PEER_FAILED, "/runs/? is gone", 1.0, 2.0)


def test_a_half_written_page_is_not_believed(tmp_path: Path) -> None:
    with RankPageWriter(tmp_path, 1) as writer:
        writer.write(PAGE)
        writer.memory[20] ^= 0xFF
        with RankPageReader(tmp_path, 1) as reader:
            assert reader.read() is None


def test_all_pages_come_in_the_order_of_local_ranks(tmp_path: Path) -> None:
    for local_rank in (10, 2):
        with RankPageWriter(tmp_path, local_rank) as writer:
            writer.write(RankPage(RankPhase.SAVING, local_rank, local_rank, 1, 5, -1, -1, 0.0))
    assert [page.local_rank for page in rank_pages(tmp_path)] == [2, 10]
