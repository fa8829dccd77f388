"""How NCCL, Gloo and TensorPipe let people name network devices, and which ones that means. Pure.

NCCL's lists (NCCL_SOCKET_IFNAME, NCCL_IB_HCA): `eth,ib` are beginnings of names, `=eth0,eth1` whole names, `^docker,lo`
all others, `^=eth0` all others by whole name. Of an adapter a port can be named: `mlx5_0:1`. Gloo and TensorPipe take
whole names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    names: tuple[str, ...]
    exact: bool = False
    others: bool = False
    """All but these."""

    def mean(self, device: str, port: int | None = None) -> bool:
        return self.others != any(self._is(name, device, port) for name in self.names)

    def among(self, devices: Iterable[str]) -> list[str]:
        return [device for device in devices if self.mean(device)]

    def _is(self, said: str, device: str, port: int | None) -> bool:
        name, _, number = said.partition(":")
        if port is not None and number.isdecimal() and int(number) != port:
            return False
        return device == name if self.exact else device.startswith(name)


def nccl_names(text: str) -> Names | None:
    """None: nothing is named."""
    others = text.startswith("^")
    text = text[others:]
    exact = text.startswith("=")
    names = tuple(name.strip() for name in text[exact:].split(",") if name.strip())
    return Names(names, exact, others) if names else None


def whole_names(text: str) -> Names | None:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return Names(names, exact=True) if names else None
