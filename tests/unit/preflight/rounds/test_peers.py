"""Who tries whom, and by which address."""

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.rounds.peers import ALL_PAIRS_UP_TO, addresses_to_try, listed, peers_of, same_host
from tests.unit.preflight.rounds.playing import card, cards_of


@given(st.integers(2, ALL_PAIRS_UP_TO))
def test_few_nodes_try_everybody(count):
    for task, peers in peers_of(cards_of(count)).items():
        assert sorted([task, *peers]) == list(range(count))


@given(st.integers(ALL_PAIRS_UP_TO + 1, 300))
def test_many_nodes_try_the_first_and_the_next_two(count):
    for task, peers in peers_of(cards_of(count)).items():
        assert len(peers) <= 3
        assert task not in peers
        assert peers[:2] == [(task + 1) % count, (task + 2) % count]
        assert task == 0 or 0 in peers


def test_a_bridge_that_every_host_has_is_not_tried():
    cards = {task: card(task, addresses=("172.17.0.1", f"10.0.0.{task}")) for task in range(3)}
    assert addresses_to_try(cards[1], cards) == ["10.0.0.1"]


def test_nodes_on_one_machine_share_their_addresses():
    cards = cards_of(3, addresses=("192.0.2.2",), boot_id="one")
    assert addresses_to_try(cards[1], cards) == ["192.0.2.2"]


def test_addresses_of_one_link_only_are_not_tried_and_ipv4_comes_first():
    cards = {0: card(0, addresses=("fe80::1", "169.254.3.4", "fd00::1", "10.0.0.1"))}
    assert addresses_to_try(cards[0], cards) == ["10.0.0.1", "fd00::1"]


def test_hosts_whose_boot_id_is_not_known_are_not_the_same():
    assert not same_host(card(0, boot_id=""), card(1, boot_id=""))


def test_long_lists_are_shortened():
    assert listed([]) == "no node"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([f"n{i}" for i in range(9)]) == "n0, n1, n2, n3 and 5 more"
