"""A bond as /proc/net/bonding tells it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

NOBODY = "00:00:00:00:00:00"
_LACP = "802.3ad"


@dataclass(frozen=True, slots=True)
class Slave:
    name: str
    up: bool
    speed_mb_s: int | None = None
    """In megabits per second. None: unknown."""
    duplex: str | None = None
    failures: int = 0
    aggregator: int | None = None
    partner: str | None = None
    """The MAC address of the switch, in LACP; `00:00:00:00:00:00`: nobody answers. Only root is told."""
    churned: bool = False
    """LACP has given up on the switch's side of it. Everybody is told, but of a single link it can be an old story:
    kernels may never take it back (netdev 2026-01, `bonding: restructure ad_churn_machine`)."""


@dataclass(frozen=True, slots=True)
class Bond:
    name: str
    mode: str
    up: bool
    slaves: tuple[Slave, ...]
    polling_ms: int | None = None
    """miimon: how often links are looked at; 0: never."""
    arp: bool = False
    """Links are watched by ARP instead."""
    partner: str | None = None

    @property
    def lacp(self) -> bool:
        return _LACP in self.mode

    @property
    def in_reserve(self) -> bool:
        """All links but one wait for that one to fail."""
        return "active-backup" in self.mode

    @property
    def alone(self) -> bool:
        """No switch speaks LACP with it."""
        partners = [self.partner, *(slave.partner for slave in self.slaves if slave.up)]
        known = [partner for partner in partners if partner is not None]
        churned = [slave.churned for slave in self.slaves if slave.up]
        return self.lacp and (all(each == NOBODY for each in known) if known else bool(churned) and all(churned))


def read_bond(name: str, text: str) -> Bond:
    """Sections begin with `Slave Interface:`; LACP's details of a slave are indented, each under a heading."""
    head, *sections = re.split(r"^Slave Interface:", text, flags=re.MULTILINE)
    fields = _fields(head)
    polling = fields.get("MII Polling Interval (ms)", "")
    return Bond(
        name,
        fields.get("Bonding Mode", "unknown"),
        fields.get("MII Status") == "up",
        tuple(_slave(section) for section in sections),
        int(polling) if polling.isdecimal() else None,
        fields.get("ARP Polling Interval (ms)", "0") not in ("0", ""),
        fields.get("Partner Mac Address"),
    )


def _slave(section: str) -> Slave:
    name, _, rest = section.partition("\n")
    fields = _fields(rest)
    partner = re.search(r"details partner lacp pdu:(.*)", rest, re.DOTALL)
    speed = re.match(r"(\d+) Mbps", fields.get("Speed", ""))
    failures, aggregator = fields.get("Link Failure Count", ""), fields.get("Aggregator ID", "")
    duplex = fields.get("Duplex")
    return Slave(
        name.strip(),
        fields.get("MII Status") == "up",
        int(speed[1]) if speed else None,
        None if duplex in (None, "Unknown") else duplex,
        int(failures) if failures.isdecimal() else 0,
        int(aggregator) if aggregator.isdecimal() else None,
        _fields(partner[1]).get("system mac address") if partner else None,
        fields.get("Partner Churn State") == "churned",
    )


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())  # the actor's details stand before the partner's
    return fields
