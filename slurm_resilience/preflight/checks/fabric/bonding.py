"""Check `bonding`: every link of a bond is up, alike, and in one bundle with the switch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.fabric.bond import NOBODY, Bond, read_bond
from slurm_resilience.preflight.checks.reading import names_in, text_of
from slurm_resilience.preflight.checks.summary import counted, earlier, listed, summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn

_TELL = "tell the admins: cable, optics, or the port of the switch"
_SET_UP = "tell the admins: the bond and the switch are not set up alike"


def bonding(context: Context, tell: Tell) -> Iterable[Finding]:
    tell("reading /proc/net/bonding")
    folder = context.root / "proc" / "net" / "bonding"
    texts = {name: text_of(folder / name) for name in names_in(folder)}
    bonds = [read_bond(name, text) for name, text in texts.items() if text]
    bonds = [bond for bond in bonds if bond.slaves]  # one without links is nobody's
    if not bonds:
        return [skipped("there is no bond here")]
    failures = earlier(context, "bonding", "link_failures")
    before = failures[-1] if failures and isinstance(failures[-1], Mapping) else {}
    problems = [problem for bond in bonds for problem in judge(bond, before)]
    fine = "; ".join(f"{bond.name} ({bond.mode}): {counted(len(bond.slaves), 'link')} up" for bond in bonds)
    return summed_up(problems, fine, _facts(bonds))


def judge(bond: Bond, before: Mapping[str, Any]) -> list[Finding]:
    """`before`: how often each link had failed at the last preflight here."""
    up = [slave for slave in bond.slaves if slave.up]
    down = [slave.name for slave in bond.slaves if not slave.up]
    if not bond.up or not up:
        return [fail(Problem.NODE, f"{bond.name} is down: none of its links is up", f"leave the node out; {_TELL}")]
    problems = []
    if down:
        text = f"{bond.name}: {listed(down)} is down, {len(up)} of {counted(len(bond.slaves), 'link')} left"
        problems.append(warn(Problem.NODE, text, _TELL))
    aggregators = {slave.aggregator for slave in up if slave.aggregator is not None}
    if bond.alone:
        text = f"{bond.name}: no switch speaks LACP with it: it has one link's speed, or none"
        problems.append(warn(Problem.NODE, text, _SET_UP))
    elif bond.lacp and len(aggregators) > 1:
        text = f"{bond.name}: its links are in {len(aggregators)} aggregators, and only one of these carries anything"
        problems.append(warn(Problem.NODE, text, _SET_UP))
    elif bond.lacp and any(slave.partner == NOBODY for slave in up):
        lonely = listed(slave.name for slave in up if slave.partner == NOBODY)
        text = f"{bond.name}: no switch speaks LACP on {lonely}"
        problems.append(warn(Problem.NODE, text, _SET_UP))
    # Of an active-backup bond one link works at a time: a slower one in reserve is how some are built.
    for what, values in (
        ()
        if bond.in_reserve
        else (
            ("speeds", {f"{slave.speed_mb_s} Mb/s" for slave in up if slave.speed_mb_s}),
            ("duplex", {slave.duplex for slave in up if slave.duplex}),
        )
    ):
        if len(values) > 1:
            text = f"{bond.name}: its links have different {what} ({listed(sorted(filter(None, values)))})"
            problems.append(warn(Problem.NODE, text, _TELL))
    if bond.polling_ms == 0 and not bond.arp:
        text = f"{bond.name}: nobody watches its links (miimon is 0): what goes into a dead one is lost"
        problems.append(warn(Problem.NODE, text, "tell the admins: miimon=100 is usual"))
    for slave in up:
        known = before.get(f"{bond.name}/{slave.name}")
        if isinstance(known, int) and slave.failures > known:
            times = counted(slave.failures - known, "time")
            text = f"{bond.name}: the link of {slave.name} failed {times} since the last preflight here"
            problems.append(warn(Problem.NODE, text, _TELL))
    return problems


def _facts(bonds: Sequence[Bond]) -> dict[str, Any]:
    return {
        "modes": {bond.name: bond.mode for bond in bonds},
        "links_up": {bond.name: sum(slave.up for slave in bond.slaves) for bond in bonds},
        "link_failures": {f"{bond.name}/{slave.name}": slave.failures for bond in bonds for slave in bond.slaves},
    }
