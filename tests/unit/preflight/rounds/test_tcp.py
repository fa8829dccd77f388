"""Connections between the nodes: which fail, which are slow, and whose trouble that is."""

import os
import socket
from contextlib import ExitStack

import pytest

from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.result import Outcome, Problem
from slurm_resilience.preflight.rounds import connecting
from slurm_resilience.preflight.rounds.connecting import Way, measure, try_all, ways_to
from slurm_resilience.preflight.rounds.tcp import Tcp
from tests.unit.preflight.rounds.playing import card, cards_of, echo, play


def run(cards, bad=(), slow=(), trouble=None, kind="timed out", ports=None, silent=()):
    """`bad` and `silent`: (from, to), as node numbers from 0. `slow`: seconds by (from, to)."""

    def instead(task, function, assignment):
        if task == trouble:
            return {"trouble": "no answer within 22 s, while connecting to 10.0.0.1:15001"}
        connections, speeds = [], []
        for peer in assignment["peers"]:
            other = peer["task"]
            for port in peer["ports"]:
                failed = (task, other) in bad and port in (ports or peer["ports"])
                way = {"peer": other, "by": "name", "address": f"10.0.0.{other + 1}", "port": port}
                connections.append({**way, "kind": kind if failed else "ok", "took_s": 0.001})
            if (task, other) in silent:
                speeds.append({"peer": other, "trouble": kind})
            elif (task, other) not in bad:
                seconds = dict(slow).get((task, other), 0.002)
                measured = {"round_trip_s": 0.0001, "round_trip_max_s": 0.0002, "transfer_s": seconds}
                speeds.append({"peer": other, **measured})
        return {"connections": connections, "speeds": speeds}

    return play(Tcp(), cards, instead=instead)


def with_all(node, count):
    return [(node, other) for other in range(count) if other != node]


def turned(ways):
    return [(other, one) for one, other in ways]


def test_healthy_nodes_are_fine_and_tell_what_was_measured():
    played = run(cards_of(4))
    assert played.bad == {}
    assert played.results[0].finding.measured["round_trip_s"] == {"n2": 0.0001, "n3": 0.0001, "n4": 0.0001}


def test_a_port_that_is_closed_on_one_node_names_that_node_and_the_port():
    played = run(cards_of(4), turned(with_all(1, 4)), ports=[15001])
    assert list(played.bad) == ["n2"]
    assert "n1, n3 and n4 can't connect to port 15001 of n2 (10.0.0.2): no answer: a firewall drops" in played.bad["n2"]
    (found,) = played.of(Outcome.FAIL)
    assert found.finding.problem is Problem.NODE
    assert "the firewall on n2" in str(found.finding.remedy)
    assert found.finding.measured == {"kinds": {"timed out": 3}, "ports": [15001]}


def test_a_node_that_gets_nowhere_is_named():
    played = run(cards_of(4), with_all(1, 4))
    assert list(played.bad) == ["n2"]
    assert "n2 can't connect to n1, n3 and n4" in played.bad["n2"]


def test_a_node_that_is_cut_off_in_both_directions_is_named_once():
    played = run(cards_of(4), with_all(1, 4) + turned(with_all(1, 4)), kind="no route")
    assert list(played.bad) == ["n2"]
    assert "nor n2 to them" in played.bad["n2"]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_trouble_between_two_nodes_only_names_both(count):
    played = run(cards_of(count), [(0, 1)])
    assert list(played.bad) == [None]
    assert "between n1 and n2: n1 can't connect to ports 15001, 40001 of n2" in played.bad[None]


def test_a_firewall_between_all_nodes_is_nobodys():
    every = [way for node in range(4) for way in with_all(node, 4)]
    played = run(cards_of(4), every)
    assert list(played.bad) == [None]
    assert "most of the nodes can't reach each other" in played.bad[None]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("refused", "refused: a firewall rejects it"),
        ("no route", "firewalld"),
        ("timed out", "a firewall drops the packets"),
    ],
)
def test_the_way_a_connection_fails_is_told(kind, words):
    assert words in run(cards_of(3), turned(with_all(1, 3)), kind=kind).bad["n2"]


def test_large_packets_that_dont_pass_are_told_as_an_mtu():
    played = run(cards_of(4), silent=with_all(1, 4), kind="stalled")
    assert list(played.bad) == ["n2"]
    assert "large ones don't: the MTU differs" in played.bad["n2"]
    assert "ip link" in str(played.of(Outcome.FAIL)[0].finding.remedy)


@pytest.mark.parametrize("count", [3, 4, 9])
def test_a_slow_link_names_its_node(count):
    slow = dict.fromkeys(with_all(1, count) + turned(with_all(1, count)), 2.1)
    played = run(cards_of(count), slow=slow.items())
    assert list(played.bad) == ["n2"]
    assert "n2's network is slow" in played.bad["n2"]
    assert played.of(Outcome.WARN)


@pytest.mark.parametrize("kind", ["stalled", "silent"])
@pytest.mark.parametrize("halfway", [[(1, 3)], [(3, 1), (1, 3)], [(1, 0), (1, 2)], [(0, 1), (2, 1), (1, 3)]])
def test_what_stops_halfway_on_a_slow_link_is_that_links(kind, halfway):
    """Seen on a line of 1 Mbit/s that six transfers shared: of one, nothing came in its time."""
    slow = dict.fromkeys(with_all(1, 4) + turned(with_all(1, 4)), 2.1)
    played = run(cards_of(4), slow=slow.items(), silent=halfway, kind=kind)
    assert list(played.bad) == ["n2"]
    assert "n2's network is slow" in played.bad["n2"]
    assert played.of(Outcome.FAIL) == []


def test_what_stops_halfway_between_two_others_is_still_told_beside_a_slow_link():
    slow = dict.fromkeys(with_all(1, 4) + turned(with_all(1, 4)), 2.1)
    played = run(cards_of(4), slow=slow.items(), silent=[(0, 3)], kind="stalled")
    assert set(played.bad) == {"n2", None}
    assert "between n1 and n4" in played.bad[None]


def test_a_slow_way_between_two_nodes_names_both():
    played = run(cards_of(4), slow={(0, 1): 1.0, (1, 0): 1.0}.items())
    assert list(played.bad) == [None]
    assert "between n1 and n2 transfers take 500.0 times" in played.bad[None]


def test_one_slow_direction_alone_was_a_bad_moment():
    """An echo goes there and back: a slow link is slow for both."""
    assert run(cards_of(4), slow={(0, 1): 1.0}.items()).bad == {}


def test_a_node_that_hangs_is_broken_and_says_how_far_it_came():
    played = run(cards_of(4), trouble=2)
    assert list(played.bad) == ["n3"]
    assert "while connecting to 10.0.0.1:15001" in played.bad["n3"]


def test_a_node_without_a_port_is_broken():
    cards = {**cards_of(3), 1: card(1, ports=())}
    assert list(run(cards).bad) == ["n2"]


def test_a_few_nodes_really_connect(monkeypatch):
    for patience in ("CONNECT_S", "ECHO_S", "TRANSFER_S", "MEASURING_S"):
        monkeypatch.setattr(connecting, patience, 30.0)  # a machine that is busy is no node that is silent
    with ExitStack() as opened:
        cards = {
            task: card(
                task,
                host=socket.gethostname(),
                addresses=(),
                boot_id="one",
                ports=(opened.enter_context(echo()), opened.enter_context(echo())),
            )
            for task in range(3)
        }
        contexts = {task: Context(f"n{task + 1}", dict(os.environ)) for task in range(3)}
        played = play(Tcp(), cards, contexts=contexts)
    assert played.of(Outcome.FAIL, Outcome.BROKEN) == []
    assert set(played.results[0].finding.measured["transfer_s"]) == {"n2", "n3"}


def test_a_port_where_nobody_listens_is_refused_and_one_that_drops_times_out():
    with socket.socket() as closed, socket.socket() as full, echo() as port:
        closed.bind(("127.0.0.1", 0))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:  # its queue is full then: further ones are not answered
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        ways = [
            Way(0, "name", "127.0.0.1", number) for number in (closed.getsockname()[1], full.getsockname()[1], port)
        ]
        found = try_all(ways, timeout_s=1.5)
        for one in waiting:
            one.close()
    assert [one["kind"] for one in found] == ["refused", "timed out", "ok"]


def test_a_server_that_says_nothing_is_silent(monkeypatch):
    monkeypatch.setattr(connecting, "ECHO_S", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        assert measure(*listener.getsockname())["trouble"] == "silent"


PEER = {"task": 1, "names": ["n2", "host2"], "addresses": ["10.0.0.2"], "ports": [15001, 40001], "same_host": False}


@pytest.mark.parametrize(
    ("resolved", "named", "ways"),
    [
        ({"n2": ["10.0.0.2"]}, False, [("name", "10.0.0.2")]),
        ({"host2": ["10.0.0.2"]}, True, [("name", "10.0.0.2")]),
        ({"n2": ["192.168.0.2"]}, False, [("name", "192.168.0.2")]),
        ({"n2": ["192.168.0.2"]}, True, [("name", "192.168.0.2"), ("address", "10.0.0.2")]),
        ({}, False, [("address", "10.0.0.2")]),
        ({"n2": ["127.0.0.1"]}, False, [("address", "10.0.0.2")]),  # the round of names says that
    ],
)
def test_the_ways_to_a_node_are_those_that_the_job_would_take(resolved, named, ways):
    found = ways_to(PEER, resolved, named_interface=named)
    assert [(way.by, way.address) for way in found] == [way for way in ways for _ in PEER["ports"]]
    assert {way.port for way in found} == {15001, 40001}
