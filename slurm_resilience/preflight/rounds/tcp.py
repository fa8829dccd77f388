"""Whether the nodes reach each other, on the ports that the job would use. Pure; the connecting is in `connecting`.

A real connection says more than any reading of firewall rules. What fails between two nodes is put to a vote: who has
trouble with most of the others is named, not they.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from slurm_resilience.preflight.result import Finding, Problem, Result, broken, fail, ok, warn
from slurm_resilience.preflight.round import Answer, Card, Round
from slurm_resilience.preflight.rounds.blame import Pair, Slow, blame, slowest
from slurm_resilience.preflight.rounds.peers import addresses_to_try, listed, names_of, peers_of, same_host

SLOW_TIMES, SLOW_S = 4.0, 0.05
"""A transfer's time against the median of this job's nodes, and how much longer it must be: never an absolute speed."""
_MEANS = {
    "timed out": "no answer: a firewall drops the packets, or the address is not where it should be",
    "refused": "refused: a firewall rejects it, or preflight's echo there has gone",
    "no route": "no route to it, or a firewall that rejects (firewalld answers like that)",
    "silent": "connected, but nothing came back",
    "stalled": "small packets pass, large ones don't: the MTU differs on the way",
    "failed": "failed",
}
_HALFWAY = {"silent", "stalled"}
"""Connected; what was sent then did not come back in time."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One direction of one pair."""

    origin: int
    target: int
    kind: str
    ports: tuple[int, ...]
    address: str


@dataclass(frozen=True, slots=True)
class Tcp:
    what: ClassVar[str] = "the nodes reach each other on the ports of the job"
    name: str = "tcp"
    function: str = "slurm_resilience.preflight.rounds.connecting:connect"
    timeout_s: float = 22.0

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        if len(cards) < 2:
            return {}
        return {
            task: {"peers": [_peer(cards[task], other, cards) for other in peers]}
            for task, peers in peers_of(cards).items()
        }

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        values = {task: answer.values for task, answer in answers.items() if answer.values is not None}
        for card in cards.values():
            if not card.ports and len(cards) > 1:
                sentence = f"{card.node} could not open a port for the others to connect to"
                yield Result("tcp", card.node, broken(sentence))
        for task, answer in sorted(answers.items()):
            if answer.values is None:
                sentence = f"its connections were not found out: {answer.trouble}"
                yield Result("tcp", cards[task].node, broken(sentence), answer.took_s)
        troubles = [trouble for task, said in values.items() for trouble in _troubles(task, said)]
        tried = {(task, int(way["peer"])) for task, said in values.items() for way in said["connections"]}
        speed = _compare(values)
        troubles = [trouble for trouble in troubles if not _is_slowness(trouble, speed)]
        concerned: set[int] = set()
        for nodes, finding in _reach(cards, troubles, tried):
            concerned |= set(nodes)
            yield Result("tcp", cards[nodes[0]].node if len(nodes) == 1 else None, finding)
        for nodes, finding in _speed(cards, speed):
            if not concerned & set(nodes):
                concerned |= set(nodes)
                yield Result("tcp", cards[nodes[0]].node if len(nodes) == 1 else None, finding)
        for task in sorted(values):
            if task not in concerned:
                finding = ok(f"{cards[task].node} reaches its peers", **_measured(cards, values[task]))
                yield Result("tcp", cards[task].node, finding, answers[task].took_s)

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return None


def _peer(me: Card, other: int, cards: Mapping[int, Card]) -> dict[str, Any]:
    card = cards[other]
    near = same_host(me, card)
    addresses = addresses_to_try(card, cards)
    return {
        "task": other,
        "node": card.node,
        "names": names_of(card),
        "addresses": addresses or (["127.0.0.1"] if near else []),
        "ports": list(card.ports),
        "same_host": near,
    }


def _troubles(task: int, said: Mapping[str, Any]) -> list[Trouble]:
    bad = [way for way in said["connections"] if way["kind"] != "ok"]
    troubles = []
    for peer in dict.fromkeys(int(way["peer"]) for way in bad):
        ways = [way for way in bad if int(way["peer"]) == peer]
        ports = tuple(dict.fromkeys(int(way["port"]) for way in ways))
        troubles.append(Trouble(task, peer, str(ways[0]["kind"]), ports, str(ways[0]["address"])))
    already = {trouble.target for trouble in troubles}
    for speed in said["speeds"]:
        if (kind := speed.get("trouble")) and int(speed["peer"]) not in already:
            way = next(way for way in said["connections"] if way["peer"] == speed["peer"] and way["kind"] == "ok")
            troubles.append(Trouble(task, int(speed["peer"]), str(kind), (int(way["port"]),), str(way["address"])))
    return troubles


def _reach(
    cards: Mapping[int, Card], troubles: list[Trouble], tried: set[Pair]
) -> Iterable[tuple[tuple[int, ...], Finding]]:
    verdict = blame(((trouble.origin, trouble.target) for trouble in troubles), tried)
    if verdict.everybody:
        sentence = f"most of the nodes can't reach each other: {_first(cards, troubles)}"
        yield tuple(sorted(cards)), fail(Problem.NODE, sentence, _remedy(troubles, "the nodes"))
        return
    for node in verdict.nodes:
        own = [trouble for trouble in troubles if node in (trouble.origin, trouble.target)]
        yield (node,), fail(Problem.NODE, _of_node(cards, node, own), _remedy(own, cards[node].node), **_facts(own))
    for pair in verdict.pairs:
        own = [trouble for trouble in troubles if {trouble.origin, trouble.target} == set(pair)]
        which = f"{cards[pair[0]].node} and {cards[pair[1]].node}"
        sentence = f"between {which}: {_first(cards, own)}"
        yield pair, fail(Problem.NODE, sentence, _remedy(own, which), pair=[cards[one].node for one in pair])


def _of_node(cards: Mapping[int, Card], node: int, troubles: list[Trouble]) -> str:
    into = [trouble for trouble in troubles if trouble.target == node]
    out = [trouble for trouble in troubles if trouble.origin == node]
    chosen = into if len(into) >= len(out) else out
    kind = Counter(trouble.kind for trouble in chosen).most_common(1)[0][0]
    me = cards[node].node
    if chosen is into:
        others = listed([cards[task].node for task in sorted({trouble.origin for trouble in into})])
        if out:
            return f"{others} can't connect to {me}, nor {me} to them: {_MEANS[kind]}"
        return f"{others} can't connect to {_ports(into)} of {me} ({into[0].address}): {_MEANS[kind]}"
    others = listed([cards[task].node for task in sorted({trouble.target for trouble in out})])
    return f"{me} can't connect to {others}: {_MEANS[kind]}"


def _first(cards: Mapping[int, Card], troubles: list[Trouble]) -> str:
    first = min(troubles, key=lambda trouble: (trouble.origin, trouble.target))
    origin, target = cards[first.origin].node, cards[first.target].node
    return f"{origin} can't connect to {_ports([first])} of {target} ({first.address}): {_MEANS[first.kind]}"


def _ports(troubles: list[Trouble]) -> str:
    ports = sorted({port for trouble in troubles for port in trouble.ports})
    return f"port {ports[0]}" if len(ports) == 1 else f"ports {', '.join(map(str, ports[:4]))}"


def _remedy(troubles: list[Trouble], where: str) -> str:
    if any(trouble.kind == "stalled" for trouble in troubles):
        return f"compare the MTU of the interfaces of {where} with the others': `ip link`"
    return (
        f"have the firewall on {where} let the job's other nodes in on all ports from 1024 up "
        "(`nft list ruleset`, `firewall-cmd --list-all`), or look at its cable, VLAN and address"
    )


def _facts(troubles: list[Trouble]) -> dict[str, Any]:
    return {
        "kinds": dict(Counter(trouble.kind for trouble in troubles)),
        "ports": sorted({port for trouble in troubles for port in trouble.ports}),
    }


def _compare(values: Mapping[int, Mapping[str, Any]]) -> Slow:
    times: dict[Pair, float] = {}
    for task, said in values.items():
        for speed in said["speeds"]:
            if (seconds := speed.get("transfer_s")) is not None:
                peer = int(speed["peer"])
                pair = (min(task, peer), max(task, peer))
                times[pair] = min(times.get(pair, float(seconds)), float(seconds))  # an echo goes both ways
    return slowest(times, times=SLOW_TIMES, least_s=SLOW_S)


def _is_slowness(trouble: Trouble, speed: Slow) -> bool:
    """What stopped halfway on the line of a node whose other transfers only crawl is the same slow line.

    Where none of a node's large transfers passes, there is no time of it, and it isn't in `speed`: that is an MTU.
    """
    return trouble.kind in _HALFWAY and bool({trouble.origin, trouble.target} & set(speed.nodes))


def _speed(cards: Mapping[int, Card], verdict: Slow) -> Iterable[tuple[tuple[int, ...], Finding]]:
    for node, ratio in verdict.nodes.items():
        card = cards[node]
        yield (
            (node,),
            warn(
                Problem.NODE,
                f"{card.node}'s network is slow: its transfers take {ratio:.1f} times as long as the other nodes'",
                f"look at the link of {card.node}: speed, duplex, errors (`ip -s link`, `ethtool`)",
                times_the_median=round(ratio, 2),
                median_s=round(verdict.median_s, 5),
            ),
        )
    for pair, ratio in verdict.pairs.items():
        one, other = (cards[task].node for task in pair)
        yield (
            pair,
            warn(
                Problem.NODE,
                f"between {one} and {other} transfers take {ratio:.1f} times as long as elsewhere in this job",
                f"look at what lies between {one} and {other}: a switch, an uplink",
                times_the_median=round(ratio, 2),
                median_s=round(verdict.median_s, 5),
            ),
        )


def _measured(cards: Mapping[int, Card], said: Mapping[str, Any]) -> dict[str, Any]:
    speeds = [speed for speed in said["speeds"] if "transfer_s" in speed]
    if not speeds:
        return {}
    by = {cards[int(speed["peer"])].node: speed for speed in speeds}
    return {
        "round_trip_s": {node: speed["round_trip_s"] for node, speed in by.items()},
        "round_trip_max_s": max(speed["round_trip_max_s"] for speed in speeds),
        "transfer_s": {node: speed["transfer_s"] for node, speed in by.items()},
    }
