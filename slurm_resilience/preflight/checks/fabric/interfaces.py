"""Check `interfaces`: the network interfaces that the job was told to use are there, and work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.environment_variable import first_number
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.fabric.nccl_names import Names, nccl_names, whole_names
from slurm_resilience.preflight.checks.fabric.nccl_settings import nccl_setting
from slurm_resilience.preflight.checks.reading import names_in, number_in, text_of
from slurm_resilience.preflight.checks.summary import listed, summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn

_LEAVE_OUT = "leave the node out (--exclude) and tell the admins"
_LIKE_NCCL = ("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
_WHOLE = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_IFF_UP = 1
Addresses = Callable[[], Mapping[str, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Interface:
    name: str
    up: bool
    carrier: bool
    addresses: tuple[str, ...]
    speed_mb_s: int | None = None
    mtu: int | None = None

    @property
    def trouble(self) -> str | None:
        if not self.up:
            return "is switched off"
        if not self.carrier:
            return "has no carrier: its cable, or what it is made of, is down"
        return None if self.addresses else "has no address"


def addresses() -> dict[str, list[str]]:
    """By interface. Without those that only count on the link itself: no other node can be reached by them."""
    import socket

    import psutil

    internet = (socket.AF_INET, socket.AF_INET6)
    return {
        name: [each.address for each in of_it if each.family in internet and not each.address.startswith("fe80:")]
        for name, of_it in psutil.net_if_addrs().items()
    }


def interfaces(context: Context, tell: Tell, ask: Addresses = addresses) -> Iterable[Finding]:
    tell("reading /sys/class/net")
    if not names_in(context.root / "sys" / "class" / "net"):
        return [skipped("/sys/class/net can't be read")]  # a container without /sys: even the loopback is missing
    there = _interfaces(context.root, ask())
    wanted = _wanted(context)
    problems = [problem for source, names in wanted.items() for problem in _of_names(source, names, there)]
    if not problems:
        problems = _contradictions(wanted, there)
    used = (
        [each for each in there if any(names.mean(each.name) for names in wanted.values())] if wanted else _usual(there)
    )
    if not used and not problems and (first_number(context.environment, "SLURM_NNODES") or 1) > 1:
        problems = [fail(Problem.NODE, "no interface but the loopback is up with an address", _LEAVE_OUT)]
    names = listed(each.name for each in used if each.trouble is None) or "the loopback only"
    fine = f"{names}, as named" if wanted else f"none is named; up with an address: {names}"
    return summed_up(problems, fine, _facts(used))


def _interfaces(root: Path, addresses: Mapping[str, Sequence[str]]) -> list[Interface]:
    net = root / "sys" / "class" / "net"
    return [
        Interface(
            name,
            bool(int(text_of(net / name / "flags") or "0", 16) & _IFF_UP),
            number_in(net / name / "carrier") == 1,
            tuple(addresses.get(name, ())),
            _positive(number_in(net / name / "speed")),
            number_in(net / name / "mtu"),
        )
        for name in names_in(net)
        if (net / name / "flags").exists()  # `bonding_masters` lies there, too
    ]


def _wanted(context: Context) -> dict[str, Names]:
    """By who names them."""
    said: dict[str, Names | None] = {}
    if context.interface:
        said["--interface"] = whole_names(context.interface)
    for name in _LIKE_NCCL:
        setting = nccl_setting(context, name)
        said[name] = nccl_names(setting[0]) if setting else None
    for name in _WHOLE:
        said[name] = whole_names(context.environment.get(name, ""))
    return {source: names for source, names in said.items() if names is not None}


def _of_names(source: str, names: Names, there: Sequence[Interface]) -> list[Finding]:
    by_name = {each.name: each for each in there}
    missing = [name for name in names.names if name.partition(":")[0] not in by_name] if names.exact else []
    meant = names.among(by_name)
    if names.others:
        meant, missing = [name for name in meant if name != "lo"], []
    if (missing and not meant) or (missing and source not in _LIKE_NCCL) or not meant:
        said = listed(missing or names.names)
        have = listed(name for name in by_name if name != "lo") or "none"
        text = f"{source} names {said}, and this node has no such interface (it has: {have})"
        if names.others:
            text = f"{source} leaves no interface of this node (it has: {have})"
        return [fail(Problem.USER, text, "name one that each node has; `ip -brief address` lists them")]
    troubles = [(name, why) for name in meant if (why := by_name[name].trouble) is not None]
    if not troubles:
        return []
    told = "; ".join(f"{name} {why}" for name, why in troubles[:3])
    if len(troubles) == len(meant) or (names.exact and not names.others):
        return [fail(Problem.NODE, f"{told} (meant by {source})", _LEAVE_OUT)]
    return []  # of several that are meant by a prefix, those that work are taken


def _contradictions(wanted: Mapping[str, Names], there: Sequence[Interface]) -> list[Finding]:
    """Two names for two networks may be meant so; that nobody can tell is worth a word."""
    working = [each.name for each in there if each.trouble is None]
    meant = {source: set(names.among(working)) for source, names in wanted.items()}
    sources = list(meant)
    for at, one in enumerate(sources):
        for other in sources[at + 1 :]:
            if meant[one] and meant[other] and not meant[one] & meant[other]:
                text = f"{one} means {listed(sorted(meant[one]))}, {other} means {listed(sorted(meant[other]))}"
                return [warn(Problem.USER, text, "name the same network in both, unless two are meant")]
    return []


def _usual(there: Sequence[Interface]) -> list[Interface]:
    return [each for each in there if each.name != "lo" and each.trouble is None]


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None  # -1: a virtual one, or a link that is down


def _facts(used: Sequence[Interface]) -> dict[str, Any]:
    return {
        "interfaces": [each.name for each in used],
        "speeds_mb_s": {each.name: each.speed_mb_s for each in used if each.speed_mb_s},
        "mtus": {each.name: each.mtu for each in used if each.mtu},
    }
