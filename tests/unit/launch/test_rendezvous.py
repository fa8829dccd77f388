"""Where the ranks meet."""

import itertools
import socket
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.clock import SystemClock
from slurm_resilience.launch.rendezvous import (
    HIGHEST,
    LOWEST,
    await_settled,
    can_be_bound,
    candidate_ports,
    ephemeral_ports,
    own_name,
    settle,
)


@given(st.text(), st.integers(1024, 65535), st.integers(0, 40000))
def test_no_port_is_one_that_the_kernel_gives_to_clients(key: str, low: int, length: int) -> None:
    for port in candidate_ports(key, (low, low + length)):
        assert LOWEST <= port < HIGHEST
        assert not low <= port <= low + length


def test_the_same_attempt_always_tries_the_same_ports_and_another_one_others() -> None:
    first, again, other = (list(candidate_ports(key, (32768, 60999))) for key in ("7.0", "7.0", "7.1"))
    assert first == again
    assert first[0] != other[0]


def test_a_port_in_use_is_not_taken(tmp_path: Path) -> None:
    firsts = ((str(key), next(candidate_ports(str(key), ephemeral_ports()))) for key in itertools.count())
    key, port = next((key, port) for key, port in firsts if can_be_bound(port))  # this machine has other users
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("", port))
        taken.listen(1)
        assert not can_be_bound(port)
        assert settle(tmp_path / "r.json", key=key, identity="i", preferred=()).port != port


def test_the_other_nodes_read_what_the_first_has_written(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    settled = settle(path, key="k", identity="attempt 2", preferred=("no-such-host.invalid", "localhost"))
    assert settled.host == "localhost"
    assert await_settled(path, identity="attempt 2", timeout_s=1, clock=SystemClock()) == settled


def test_what_another_attempt_has_written_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    settle(path, key="k", identity="attempt 1", preferred=())
    assert await_settled(path, identity="attempt 2", timeout_s=0, clock=SystemClock()) is None


def test_who_is_told_to_give_up_does(tmp_path: Path) -> None:
    never = await_settled(tmp_path / "r", identity="i", timeout_s=99, clock=SystemClock(), give_up=lambda: True)
    assert never is None


def test_a_name_of_another_machine_is_not_our_own() -> None:
    assert own_name(("no-such-host.invalid", None, "localhost")) == "localhost"
