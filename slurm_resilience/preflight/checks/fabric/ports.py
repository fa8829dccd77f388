"""The RDMA ports of this node as /sys tells them.

Counters are left alone, but for one: with some cards (mlx5 functions without privileges) each read of a counter writes
a line into the kernel's log. That one, link_downed, is not read on virtual functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.preflight.checks.reading import names_in, number_in, text_of

_IFF_UP = 1


@dataclass(frozen=True, slots=True)
class Port:
    device: str
    number: int
    state: str
    """ACTIVE, DOWN, INIT, ARMED; in the kernel's word."""
    link: str
    """LinkUp, Polling, Disabled, …"""
    layer: str
    """InfiniBand or Ethernet (RoCE)."""
    rate_gb_s: float | None
    """In gigabits per second."""
    wanted: bool
    """Nobody has switched it off."""
    board: str = ""
    """Of which kind its card is: those of the storage may be others than those of the training."""
    downs: int | None = None
    """How often its link went down since the driver was loaded."""

    @property
    def name(self) -> str:
        return f"{self.device}/{self.number}"

    @property
    def works(self) -> bool:
        return self.state == "ACTIVE" and self.link in ("LinkUp", "")


def ports(root: Path) -> list[Port]:
    devices = root / "sys" / "class" / "infiniband"
    return [
        _port(devices / device, int(number))
        for device in names_in(devices)
        for number in names_in(devices / device / "ports")
        if number.isdecimal()
    ]


def _port(device: Path, number: int) -> Port:
    folder = device / "ports" / str(number)
    link = _word(text_of(folder / "phys_state"))
    layer = text_of(folder / "link_layer") or "InfiniBand"
    return Port(
        device.name,
        number,
        _word(text_of(folder / "state")),
        link,
        layer,
        _rate(text_of(folder / "rate")),
        # An Ethernet port looks disabled when its cable is out; whether it is meant to be up, its network device says.
        _switched_on(device) if layer == "Ethernet" else link != "Disabled",
        text_of(device / "board_id") or text_of(device / "hca_type") or "",
        None if (device / "device" / "physfn").exists() else number_in(folder / "counters" / "link_downed"),
    )


def _word(text: str | None) -> str:
    """`4: ACTIVE` says ACTIVE."""
    return (text or "").partition(":")[2].strip()


def _rate(text: str | None) -> float | None:
    """`400 Gb/sec (4X NDR)`."""
    try:
        return float((text or "").split()[0])
    except (ValueError, IndexError):
        return None


def _switched_on(device: Path) -> bool:
    net = device / "device" / "net"
    flags = [text_of(net / name / "flags") for name in names_in(net)]
    return any(int(each, 16) & _IFF_UP for each in flags if each)
