"""Ports are free, and never from the range that the kernel gives to clients."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.sandbox.ports import can_be_bound, choices, ephemeral_range, free_ports


@pytest.mark.parametrize(
    ("ephemeral", "expected"),
    [
        ((32768, 60999), range(10000, 32768)),
        ((10000, 30000), range(30001, 65536)),
        ((1024, 65535), range(10000, 10000)),
    ],
)
def test_the_larger_side_is_chosen(ephemeral: tuple[int, int], expected: range) -> None:
    assert choices(ephemeral) == expected


@given(st.integers(1, 65535), st.integers(1, 65535))
def test_no_choice_is_ephemeral(one: int, other: int) -> None:
    low, high = sorted((one, other))
    found = choices((low, high))
    assert not len(found) or found[-1] < low or found[0] > high


def test_ports_are_distinct_and_not_ephemeral() -> None:
    low, high = ephemeral_range()
    found = free_ports(20)
    assert len(set(found)) == 20
    assert not [port for port in found if low <= port <= high]


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not can_be_bound(taken.getsockname()[1])
