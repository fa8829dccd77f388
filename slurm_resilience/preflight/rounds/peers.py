"""Who tries whom, and under which names and addresses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slurm_resilience.preflight.round import Card

ALL_PAIRS_UP_TO = 16
"""Nodes. Beyond that a node tries the first one and its next two, so that the whole stays linear."""


def peers_of(cards: Mapping[int, Card]) -> dict[int, list[int]]:
    """By task, those whom it tries, the one after itself first: so the nodes don't all turn to the same one at once."""
    tasks = sorted(cards)
    count = len(tasks)
    peers: dict[int, list[int]] = {}
    for index, task in enumerate(tasks):
        after = [tasks[(index + step) % count] for step in range(1, count)]
        if count > ALL_PAIRS_UP_TO:
            after = after[:2]
            if tasks[0] not in (task, *after):
                after.append(tasks[0])
        peers[task] = after
    return peers


def same_host(one: Card, other: Card) -> bool:
    """Two nodes of Slurm's on one machine: a loopback address leads from one to the other."""
    return one.boot_id == other.boot_id != ""


def names_of(card: Card) -> list[str]:
    """As others may call it, Slurm's name first: the ranks meet by the first that resolves."""
    return list(dict.fromkeys(name for name in (card.node, card.host) if name))


def addresses_to_try(target: Card, cards: Mapping[int, Card], *, most: int = 2) -> list[str]:
    """Its addresses that only its host has. A bridge's (`172.17.0.1`) is on every host, and leads to oneself."""
    owners = Counter(
        address
        for boot_id in {card.boot_id for card in cards.values()}
        for address in {a for card in cards.values() if card.boot_id == boot_id for a in card.addresses}
    )
    own = [address for address in target.addresses if owners[address] == 1 and not is_link_local(address)]
    return sorted(own, key=lambda address: ":" in address)[:most]


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def is_link_local(address: str) -> bool:
    return address.lower().startswith(("fe80:", "169.254."))


def without_zone(address: str) -> str:
    """`fe80::1%eth0` without its `%eth0`."""
    return address.partition("%")[0]


def listed(nodes: list[str]) -> str:
    """`n1`, `n1 and n2`, `n1, n2 and 5 more`."""
    if len(nodes) > 6:
        return f"{', '.join(nodes[:4])} and {len(nodes) - 4} more"
    return " and ".join(filter(None, (", ".join(nodes[:-1]), nodes[-1]))) if nodes else "no node"
