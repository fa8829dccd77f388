"""Names: whose trouble it is when one doesn't lead where it should."""

import threading

import pytest

from slurm_resilience.preflight.result import Outcome
from slurm_resilience.preflight.rounds import resolving
from slurm_resilience.preflight.rounds.names import Names
from tests.unit.preflight.rounds.playing import card, cards_of, play

N = 4


def hosts(count=N, **changes):
    """What a good /etc/hosts says, by name."""
    good = {f"{name}{task + 1}": [f"10.0.0.{task + 1}"] for task in range(count) for name in ("n", "host")}
    return good | changes


def run(cards, by_task=None, trouble=None, took_s=None):
    """`by_task`: what the names lead to there, where not to the usual."""

    def instead(task, function, assignment):
        if task == trouble:
            return {"trouble": "no answer within 12 s, while resolving n1"}
        table = (by_task or {}).get(task, hosts(len(cards)))
        names = [name for group in assignment["names"] for name in group]
        return {
            "names": {
                name: {"addresses": table[name], "took_s": (took_s or {}).get(task, 0.01)}
                if table.get(name)
                else {"addresses": [], "took_s": 0.01, "error": "Name or service not known"}
                for name in names
            },
            "own": list(cards[task].addresses),
        }

    return play(Names(), cards, instead=instead)


def test_healthy_nodes_are_fine():
    played = run(cards_of(N))
    assert played.bad == {}
    assert [result.node for result in played.of(Outcome.OK)] == ["n1", "n2", "n3", "n4"]


def test_one_node_alone_has_nobody_to_find():
    assert play(Names(), cards_of(1)).results == []


@pytest.mark.parametrize("count", [2, 3, 4, 20])
def test_the_node_that_cant_resolve_is_named_and_not_the_one_it_looks_for(count):
    lacking = hosts(count, n1=[], host1=[])
    played = run(cards_of(count), {1: lacking})
    assert list(played.bad) == ["n2"]
    assert "n2 can't resolve n1: Name or service not known" in played.bad["n2"]


def test_a_node_that_can_resolve_nothing_is_named_once():
    played = run(cards_of(N), {1: {}})
    assert list(played.bad) == ["n2"]


def test_a_name_that_nobody_can_resolve_is_about_the_node_that_has_it():
    nowhere = hosts(n2=[], host2=[])
    played = run(cards_of(N), dict.fromkeys((0, 2, 3), nowhere))  # it knows itself: /etc/hosts
    assert list(played.bad) == ["n2"]
    assert "no other node can resolve the name of n2 (n2 and host2)" in played.bad["n2"]


def test_slurms_names_need_not_resolve_where_the_hosts_names_do():
    only_hosts = {name: addresses for name, addresses in hosts().items() if name.startswith("host")}
    assert run(cards_of(N), dict.fromkeys(range(N), only_hosts)).bad == {}


@pytest.mark.parametrize("loopback", ["127.0.0.1", "127.0.1.1", "::1"])
def test_another_nodes_name_that_leads_to_oneself_is_a_failure(loopback):
    played = run(cards_of(N), {1: hosts(n3=[loopback])})
    assert list(played.bad) == ["n2"]
    assert f"n2 takes n3 for {loopback}, which is n2 itself" in played.bad["n2"]


def test_loopback_is_right_for_nodes_on_one_machine():
    loopback = {name: ["127.0.0.1"] for name in hosts()}
    assert run(cards_of(N, boot_id="one"), dict.fromkeys(range(N), loopback)).bad == {}


def test_ones_own_name_at_loopback_is_a_warning_since_gloo_tells_it_to_others():
    played = run(cards_of(N), {1: hosts(host2=["127.0.1.1"])})
    assert list(played.bad) == ["n2"]
    assert "resolves its own host name host2 to 127.0.1.1" in played.bad["n2"]
    assert played.of(Outcome.WARN)


def test_ones_own_name_at_loopback_is_fine_where_gloo_is_told_an_interface():
    def instead(task, function, assignment):
        table = hosts(host2=["127.0.1.1"]) if task == 1 else hosts()
        names = {name: {"addresses": table[name], "took_s": 0.0} for group in assignment["names"] for name in group}
        return {"names": names, "own": [f"10.0.0.{task + 1}"], "interface_chosen": True}

    assert play(Names(), cards_of(N), instead=instead).bad == {}


def test_an_address_that_the_node_doesnt_have_is_a_failure_where_others_get_the_right_one():
    played = run(cards_of(N), {1: hosts(n3=["10.9.9.9"], host3=["10.9.9.9"])})
    assert list(played.bad) == ["n2"]
    assert "n2 takes n3 for 10.9.9.9, which is none of n3's addresses" in played.bad["n2"]
    assert played.of(Outcome.FAIL)


def test_an_address_that_all_get_alike_is_a_warning():
    nat = hosts(n3=["203.0.113.3"], host3=["203.0.113.3"])
    played = run(cards_of(N), dict.fromkeys(range(N), nat))
    assert {result.node for result in played.of(Outcome.WARN)} == {"n1", "n2", "n4"}
    assert not played.of(Outcome.FAIL)


def test_a_name_may_lead_to_another_interface_than_the_one_that_was_named():
    cards = {task: card(task, addresses=(f"192.168.0.{task + 1}",)) for task in range(N)}

    def instead(task, function, assignment):
        names = {name: {"addresses": hosts()[name], "took_s": 0.0} for group in assignment["names"] for name in group}
        return {"names": names, "own": [f"10.0.0.{task + 1}", f"192.168.0.{task + 1}"]}

    assert play(Names(), cards, instead=instead).bad == {}


def test_link_zones_are_not_part_of_an_address():
    cards = {task: card(task, addresses=(f"fe80::{task + 1}",)) for task in range(N)}
    zoned = {f"{kind}{task + 1}": [f"fe80::{task + 1}%eth0"] for task in range(N) for kind in ("n", "host")}
    assert run(cards, dict.fromkeys(range(N), zoned)).bad == {}


def test_slow_names_are_a_warning_with_their_time():
    played = run(cards_of(N), took_s={2: 5.01})
    assert list(played.bad) == ["n3"]
    assert "n3 took 5.0 s to resolve" in played.bad["n3"]


def test_a_node_that_hangs_is_broken_and_says_how_far_it_came():
    played = run(cards_of(N), trouble=1)
    assert [result.node for result in played.of(Outcome.BROKEN)] == ["n2"]
    assert "while resolving n1" in played.bad["n2"]


@pytest.fixture
def never():
    """What a thread may wait for that nobody waits for, to the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_looking_up_ends_in_time_though_getaddrinfo_doesnt(monkeypatch, never):
    def slow(name, *_, **__):
        if name == "slow":
            never.wait()
        return [(2, 1, 6, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(resolving.socket, "getaddrinfo", slow)
    found = resolving.look_up([["slow"], ["quick"]], timeout_s=2)
    assert found["quick"]["addresses"] == ["10.0.0.1"]
    assert "no answer within" in found["slow"]["error"]
    assert not found["slow"]["pending"]


def test_nobody_waits_long_for_a_second_name(monkeypatch, never):
    monkeypatch.setattr(resolving, "PATIENCE_S", 0.2)

    def slow(name, *_, **__):
        if name == "n2":
            never.wait()
        return [(2, 1, 6, "", ("10.0.0.2", 0))]

    monkeypatch.setattr(resolving.socket, "getaddrinfo", slow)
    found = resolving.look_up([["n2", "host2"]], timeout_s=3600)
    assert found["n2"]["pending"]
