"""NVIDIA's Xid errors and what each asks for. Pure.

From NVIDIA's own catalogue (docs.nvidia.com, "Analyzing Xid Errors with the Xid Catalog") as gpud generated its table
from it on 2025-10-29; "immediate action" there is Action here. Older lists disagree: imbue and Azure took 63 and 92 for
hardware errors, and a site drained its nodes for Xid 63 (mej/nhc#147), which says that the card has mended itself.
"""

from __future__ import annotations

import enum
import re

CATALOGUE = "2025-10-29"


class Action(enum.Enum):
    """What NVIDIA asks for at once."""

    NOTHING = "nothing"
    RESTART_PROGRAM = "the program that met it is started again"
    RESET = "the GPU is reset"
    RESTART_NODE = "the node is started anew"
    LOOK_AT_NODE = "somebody looks at the hardware"
    SUPPORT = "the vendor is asked"
    AS_SAID = "what the message names"


_OF_EACH = {
    Action.RESTART_PROGRAM: "8 11 13 25 31 32 39-41 45 60 68-72 75-77 80 82-86 88 89 96-105 126-135 139",
    Action.RESET: "46 48 62 64 74 95 109 110 119 120 136 140 143-150 155 156 158",
    Action.RESTART_NODE: "79 151",
    Action.LOOK_AT_NODE: "54",
    Action.NOTHING: "14 37 38 43 44 63 66 67 78 92-94 106-108 121 137 141 152 153 157 159-161",
    Action.AS_SAID: "154",
}
"""Workflows of the catalogue by where they lead: 45 is the clean-up after another one; 48 (double bit error), 74
(NVLink) and 144-150 (NVLink 5) end in a reset. 94 (contained: the one program died) is a note here, like 63 and 92."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): ([0-9]+)(.*)")
_OFF_THE_BUS = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?([0-9a-fA-F:]+)\S*: GPU has fallen off the bus")
"""Stands beside Xid 79, and in its place where that was lost."""
_SXID = re.compile(r"SXid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): ([0-9]+), (Fatal|Non-fatal)")
_MENDED = re.compile(r"changed from .* to 0x0 \(None\)")


def _table() -> dict[int, Action]:
    table = {}
    for action, numbers in _OF_EACH.items():
        for each in numbers.split():
            first, _, last = each.partition("-")
            table.update(dict.fromkeys(range(int(first), int(last or first) + 1), action))
    return table


ACTIONS = _table()


def action_of(number: int) -> Action:
    """Numbers that the catalogue leaves to the vendor's support, and those it doesn't know yet, are SUPPORT."""
    return ACTIONS.get(number, Action.SUPPORT)


def read_xid(line: str) -> tuple[str, int, Action] | None:
    """Which GPU, which Xid, and what it asks for."""
    found = _XID.search(line)
    if found is None:
        lost = _OFF_THE_BUS.search(line)
        return (lost[1], 79, action_of(79)) if lost else None
    bus, number, text = found[1], int(found[2]), found[3]
    action = action_of(number)
    if action is Action.AS_SAID:  # the driver names what it wants; and it says so when it wants nothing any more
        action = Action.NOTHING if _MENDED.search(text) or "changed from" not in text else Action.RESET
    return bus, number, action


def mends(line: str) -> str | None:
    """The GPU that needs nothing any more, by the driver's own word: what it said before is over."""
    found = _XID.search(line)
    return found[1] if found and found[2] == "154" and _MENDED.search(found[3]) else None


def read_sxid(line: str) -> tuple[str, int, bool] | None:
    """Which NVSwitch, which error, and whether it is fatal."""
    found = _SXID.search(line)
    return (found[1], int(found[2]), found[3] == "Fatal") if found else None
