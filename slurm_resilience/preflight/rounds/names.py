"""Whether the nodes find each other by name. Pure; the looking up is in `resolving`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from slurm_resilience.preflight.result import Problem, Result, broken, fail, ok, warn
from slurm_resilience.preflight.round import Answer, Card, Round
from slurm_resilience.preflight.rounds.peers import (
    is_loopback,
    listed,
    names_of,
    peers_of,
    same_host,
    without_zone,
)

LATE_S = 3.0
"""A name server that doesn't answer costs 5 s before the next one is asked (resolv.conf's `timeout`)."""
_HOSTS = "compare /etc/hosts and /etc/resolv.conf of {} with another node's: `getent hosts {}`"


@dataclass(frozen=True, slots=True)
class Names:
    what: ClassVar[str] = "every node finds the others by name"
    name: str = "names"
    function: str = "slurm_resilience.preflight.rounds.resolving:resolve"
    timeout_s: float = 12.0

    def assignments(self, cards: Mapping[int, Card]) -> Mapping[int, Mapping[str, Any]]:
        if len(cards) < 2:
            return {}
        return {
            task: {"names": [names_of(cards[other]) for other in (task, *peers)]}
            for task, peers in peers_of(cards).items()
        }

    def judge(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Iterable[Result]:
        return _Judgement(cards, answers).results()

    def following(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> Round | None:
        return None


@dataclass(frozen=True, slots=True)
class _Found:
    addresses: tuple[str, ...]
    took_s: float
    error: str | None
    pending: bool
    """Not waited for to the end, as the node's other name had been found."""


def _found(one: Mapping[str, Any]) -> _Found:
    addresses = tuple(map(without_zone, one.get("addresses", ())))
    return _Found(addresses, float(one["took_s"]), one.get("error"), bool(one.get("pending")))


class _Judgement:
    def __init__(self, cards: Mapping[int, Card], answers: Mapping[int, Answer]) -> None:
        self._cards = cards
        self._answers = answers
        self._found = {
            task: {
                name: _Found(
                    tuple(map(without_zone, one.get("addresses", ()))),
                    one["took_s"],
                    one.get("error"),
                    bool(one.get("pending")),
                )
                for name, one in answer.values["names"].items()
            }
            for task, answer in answers.items()
            if answer.values is not None and task in cards
        }
        self._own = {
            task: set(card.addresses) | set(((answers.get(task) or Answer(None)).values or {}).get("own", ()))
            for task, card in cards.items()
        }
        self._peers = peers_of(cards)

    def results(self) -> list[Result]:
        results = []
        for task, answer in sorted(self._answers.items()):
            if answer.values is None:
                trouble = broken(f"what it resolves was not found out: {answer.trouble}")
                results.append(Result("names", self._cards[task].node, trouble, answer.took_s))
        unknown = [target for target in sorted(self._cards) if self._is_known_to_nobody(target)]
        results += [self._unknown(target) for target in unknown]
        for task in sorted(self._found):
            results += self._of(task, unknown)
        return results

    def _observers(self, target: int) -> list[int]:
        return [task for task in self._found if task != target and target in self._peers[task]]

    def _is_known_to_nobody(self, target: int) -> bool:
        """By none of its names; one node alone that doesn't know it is that node's trouble."""
        observers = self._observers(target)
        known = any(self._found[task][name].addresses for task in observers for name in names_of(self._cards[target]))
        return len(observers) > 1 and not known

    def _unknown(self, target: int) -> Result:
        card = self._cards[target]
        names = " and ".join(names_of(card))
        finding = fail(
            Problem.NODE,
            f"no other node can resolve the name of {card.node} ({names})",
            f"add {card.host} to DNS, or to /etc/hosts of every node",
            names=names_of(card),
        )
        return Result("names", card.node, finding)

    def _of(self, task: int, unknown: list[int]) -> list[Result]:
        findings = []
        me = self._cards[task]
        lost = [other for other in self._peers[task] if other not in unknown and self._lacks(task, other)]
        if lost:
            names = {(self._lacking(task, other) or names_of(self._cards[other]))[0] for other in lost}
            why = self._found[task][min(names)].error or "no address"
            findings.append(
                fail(
                    Problem.NODE,
                    f"{me.node} can't resolve {listed(sorted(names))}: {why}",
                    _HOSTS.format(me.node, min(names)),
                    unresolved=sorted(names),
                )
            )
        findings += [*self._loopback(task), *self._foreign(task)]
        late = {
            name: found.took_s for name, found in self._found[task].items() if found.addresses and found.took_s > LATE_S
        }
        if late and not findings:
            name = max(late, key=lambda name: late[name])
            findings.append(
                warn(
                    Problem.NODE,
                    f"{me.node} took {late[name]:.1f} s to resolve {name}",
                    f"look at the name servers in /etc/resolv.conf of {me.node}: one may not answer",
                    resolve_s=round(late[name], 3),
                )
            )
        if not findings:
            found = self._found[task].values()
            slowest = max((one.took_s for one in found if one.addresses), default=0.0)
            findings.append(
                ok(
                    f"{me.node} resolves the other nodes' names",
                    resolve_s=round(slowest, 4),
                    names=self._measured(task),
                )
            )
        return [Result("names", me.node, finding, self._answers[task].took_s) for finding in findings]

    def _measured(self, task: int) -> dict[str, list[str]]:
        return {name: list(found.addresses) for name, found in self._found[task].items() if len(self._cards) <= 16}

    def _lacking(self, task: int, other: int) -> list[str]:
        """Names of `other` that `task` doesn't know, though somebody else does."""
        elsewhere = [observer for observer in self._observers(other) if observer != task] or [other]
        return [
            name
            for name in names_of(self._cards[other])
            if not (own := self._found[task][name]).addresses
            and not own.pending
            and any(name in (found := self._found.get(o, {})) and found[name].addresses for o in elsewhere)
        ]

    def _lacks(self, task: int, other: int) -> bool:
        """Of two nodes, one that knows none of the other's names: it can't be said whose trouble, so it is its own."""
        lacking = self._lacking(task, other)
        return bool(lacking) or not any(self._found[task][name].addresses for name in names_of(self._cards[other]))

    def _loopback(self, task: int) -> list[Any]:
        me = self._cards[task]
        wrong = {
            name: found.addresses[0]
            for other in self._peers[task]
            if not same_host(me, self._cards[other])
            for name in names_of(self._cards[other])
            if (found := self._found[task][name]).addresses and any(map(is_loopback, found.addresses))
        }
        if wrong:
            name = min(wrong)
            return [
                fail(
                    Problem.NODE,
                    f"{me.node} takes {name} for {wrong[name]}, which is {me.node} itself",
                    f"remove {name} from the line of {wrong[name]} in /etc/hosts of {me.node}",
                    wrong=wrong,
                )
            ]
        chosen = ((self._answers[task].values or {}).get("interface_chosen")) is True
        alone = chosen or all(same_host(me, card) for card in self._cards.values())
        own = self._found[task].get(me.host)
        if not alone and own and own.addresses and all(map(is_loopback, own.addresses)):
            return [
                warn(
                    Problem.NODE,
                    f"{me.node} resolves its own host name {me.host} to {own.addresses[0]}: Gloo would tell the "
                    "others that address",
                    f"set GLOO_SOCKET_IFNAME, or give {me.host} its real address in /etc/hosts of {me.node}",
                )
            ]
        return []

    def _foreign(self, task: int) -> list[Any]:
        me = self._cards[task]
        for other in self._peers[task]:
            for name in names_of(self._cards[other]):
                got = [a for a in self._found[task][name].addresses if not is_loopback(a)]
                if not got or not self._own[other] or set(got) & self._own[other]:
                    continue
                observers = [o for o in self._observers(other) if o != task]
                alike = any(set(self._found[o][name].addresses) & set(got) for o in observers)
                say = warn if alike else fail
                target = self._cards[other].node
                return [
                    say(
                        Problem.NODE,
                        f"{me.node} takes {name} for {got[0]}, which is none of {target}'s addresses",
                        _HOSTS.format(me.node, name),
                        got=got,
                        addresses=sorted(self._own[other]),
                    )
                ]
        return []
