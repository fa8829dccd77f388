"""What goes over the socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk.image import Image, Region
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.writer.job import WriteJob
from slurm_resilience.checkpoint.writer.outcome import Refused, Written
from slurm_resilience.checkpoint.writer.protocol import (
    End,
    Garbled,
    HungUp,
    Job,
    receive_answer,
    receive_order,
    send_answer,
    send_end,
    send_job,
)

MANY = Image(1 << 40, 4096, 64, tuple(Region(row, row * 4096, 4096) for row in range(20_000)))


@pytest.fixture
def ends():
    mine, its = socket.socketpair()
    with mine, its:
        yield mine, its


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_job_with_many_tensors_is_sent_without_anybody_receiving(ends):
    job = WriteJob("step-1.a1", 0, "checkpoints/step-1.a1/rank-00000.h5", MANY, {"note": "é"})
    arena, watermark = os.memfd_create("arena"), os.memfd_create("watermark")
    os.write(arena, b"arena")
    before = _open_descriptors()
    send_job(ends[0], job, arena=arena, arena_bytes=5, watermark=watermark)
    assert _open_descriptors() == before
    order = receive_order(ends[1])
    assert isinstance(order, Job)
    assert (order.job, order.arena_bytes) == (job, 5)
    assert os.pread(order.arena, 9, 0) == b"arena"
    assert os.fstat(order.watermark).st_ino == os.fstat(watermark).st_ino
    assert not os.get_inheritable(order.arena)
    for descriptor in (arena, watermark, order.arena, order.watermark):
        os.close(descriptor)


@given(
    st.builds(
        Written,
        st.builds(PartReceipt, st.integers(0, 9), st.text(max_size=99), st.integers(0), st.text(max_size=99)),
        st.floats(0, 1e6),
    )
    | st.builds(Refused, st.none() | st.integers(1, 133), st.text(max_size=99))
)
def test_an_answer_comes_back_as_it_was(answer):
    mine, its = socket.socketpair()
    with mine, its:
        send_answer(its, answer)
        assert receive_answer(mine) == answer


def test_a_long_reason_is_cut_and_not_refused(ends):
    send_answer(ends[1], Refused(5, "é" * 100_000))
    answer = receive_answer(ends[0])
    assert isinstance(answer, Refused)
    assert answer.why == "é" * 2000


def test_the_end_is_told_from_a_hang_up(ends):
    send_end(ends[0])
    ends[0].close()
    assert receive_order(ends[1]) == End()
    assert receive_order(ends[1]) == HungUp()


@pytest.mark.parametrize("sent", [b"", b"\0\0", b'\0\0\0\x09{"say":'])
def test_a_side_that_dies_in_the_middle_of_a_message_has_hung_up(ends, sent):
    ends[0].sendall(sent)
    ends[0].close()
    assert receive_order(ends[1]) == HungUp()


@pytest.mark.parametrize("body", [b"[]", b"{}", b"\xff", b'{"say": "job"}', b'{"say": "written"}'])
def test_what_is_no_message_is_garbled_and_its_descriptors_are_closed(ends, body):
    descriptor = os.memfd_create("x")
    before = _open_descriptors()
    for receive in (receive_order, receive_answer):
        socket.send_fds(ends[0], [len(body).to_bytes(4, "big") + body], [descriptor])
        with pytest.raises(Garbled):
            receive(ends[1])
    assert _open_descriptors() == before
    os.close(descriptor)


def test_a_length_beyond_reason_is_garbled(ends):
    ends[0].sendall(b"\xff\xff\xff\xff")
    with pytest.raises(Garbled, match="4294967295"):
        receive_order(ends[1])
