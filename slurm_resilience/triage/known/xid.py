"""What NVIDIA's driver says in the kernel's log: Xid of GPUs, SXid of switches, and what to do about each. Pure data.

The actions are those of NVIDIA's Xid catalogue of 2025-10 (docs.nvidia.com, analyzing-xid-catalog, as gpud mirrors it).
Older lists disagree: they take 63 and 92 for broken hardware, where the catalogue says that nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import KnownFailure, Retry
from slurm_resilience.triage.known.writing import advice, cascade, root

_CATALOGUE = "NVIDIA's Xid catalogue of 2025-10, wording as in gpud's tests"
_HINTS = ("NVRM: Xid",)


def _codes(text: str) -> frozenset[int]:
    """`8 39-41` as numbers."""
    spans = [each.partition("-") for each in text.split()]
    return frozenset(code for low, _, high in spans for code in range(int(low), int(high or low) + 1))


ACTIONS: Mapping[str, frozenset[int]] = MappingProxyType(
    {
        "RESTART_APP": _codes("8 11 13 25 31 32 39-41 60 68-72 75-77 80 82-86 88 89 94 96-105 126-135 139"),
        "RESET_GPU": _codes("46 62 64 95 109 110 119 120 136 140 143 155 156 158"),
        "RESTART_BM": _codes("79"),
        "RESTART_VM": _codes("151"),
        "IGNORE": _codes("14 37 38 43 44 63 66 67 92 93 106-108 121 137 141 152 153 157 160 161"),
        "CHECK_MECHANICALS": _codes("54"),
        "UPDATE_SWFW": _codes("78"),
        "CHECK_UVM": _codes("159"),
        "WORKFLOW_XID_45": _codes("45"),
        "WORKFLOW_XID_48": _codes("48"),
        "WORKFLOW_NVLINK_ERR": _codes("74"),
        "WORKFLOW_NVLINK5_ERR": _codes("144-150"),
        "XID_154": _codes("154"),
    }
)
"""What the catalogue says to do at once. A code that is in none of them: ask the support."""


def action_of(code: int) -> str:
    return next((action for action, codes in ACTIONS.items() if code in codes), "CONTACT_SUPPORT")


def _regex(code: str, rest: str = "") -> str:
    return rf"NVRM: Xid \(PCI:(?P<device>[\dA-Fa-f:.]+)\): (?P<code>{code})\b{rest}"


_PROGRAM = (
    "look for the bug in the program (an index out of range, a kernel of your own); run it with compute-sanitizer"
)
_RESET = "go on without that node, and have the GPU reset: nvidia-smi --gpu-reset, or a reboot"
_REBOOT = "go on without that node, and have it rebooted; if it comes back, the GPU or its seat is broken"
_SUPPORT = "go on without that node, and have the GPU looked at by its support"
_AGAIN = "start it again; if it comes back, leave the node out"
_LOOK = "nvidia-smi -q; dmesg | grep -i NVRM"


def _program(code: int, title: str) -> KnownFailure:
    return root(
        f"xid.{code}", title, _regex(str(code)), _HINTS, Cause.CRASHED, _CATALOGUE, do=_PROGRAM, retry=Retry.USELESS,
        command="compute-sanitizer python …",
    )  # fmt: skip


def _broken(slug: int | str, title: str, do: str, *, code: str | None = None, rest: str = "") -> KnownFailure:
    return root(
        f"xid.{slug}", title, _regex(code or str(slug), rest), _HINTS, Cause.NODE_FAILURE, _CATALOGUE, do=do,
        retry=Retry.ELSEWHERE, command=_LOOK, avoid_node=True,
    )  # fmt: skip


def _again(slug: int | str, title: str, do: str, *, code: str | None = None) -> KnownFailure:
    return root(
        f"xid.{slug}", title, _regex(code or str(slug)), _HINTS, Cause.CRASHED, _CATALOGUE, do=do, retry=Retry.HELPS,
        command=_LOOK,
    )  # fmt: skip


def _note(
    slug: int | str, title: str, do: str | None = None, *, code: str | None = None, rest: str = ""
) -> KnownFailure:
    return advice(f"xid.{slug}", title, _regex(code or str(slug), rest), _HINTS, _CATALOGUE, do=do)


def _any_of(action: str) -> str:
    return "(?:" + "|".join(str(code) for code in sorted(ACTIONS[action])) + ")"


XID = (
    root(
        "xid.off-the-bus",
        "a GPU is gone from the bus",
        r"NVRM: (?:GPU at )?(?:GPU )?(?:PCI:)?(?P<device>[\dA-Fa-f:.]+): GPU has fallen off the bus|"
        r"fallen off the bus and is not responding to commands",
        "fallen off the bus",
        Cause.NODE_FAILURE,
        _CATALOGUE,
        do=_REBOOT,
        retry=Retry.ELSEWHERE,
        command=_LOOK,
        avoid_node=True,
    ),
    _broken(79, "a GPU is gone from the bus", _REBOOT),
    _broken(48, "a GPU's memory has an error that can't be corrected", _RESET),
    _again(94, "a memory error of a GPU ended one program, and is contained", "start it again, and have the GPU reset"),
    _broken(95, "a memory error of a GPU could not be contained", _RESET),
    _broken(140, "a GPU's memory has an error that can't be corrected", _RESET),
    _broken("uncorrectable", "a GPU's memory has an error that can't be corrected", _RESET, code="17[12]"),
    _broken(64, "a GPU could not set broken memory aside", _RESET),
    _note(63, "a GPU has set broken memory aside", "have the GPU reset when the node is empty"),
    _note(92, "a GPU corrects many memory errors"),
    _program(13, "a kernel did what the GPU does not allow"),
    _program(31, "a kernel touched GPU memory that is not its own"),
    _note(43, "the program's own error stopped its work on a GPU", _PROGRAM),
    cascade("xid.45", "a GPU cleaned up after a program that had ended", _regex("45"), _HINTS, _CATALOGUE),
    _again(8, "a GPU stopped working on a program", _AGAIN),
    _again(32, "a GPU got broken commands", _AGAIN),
    _program(69, "a kernel did what the GPU does not allow"),
    _broken(46, "a GPU stopped answering", _RESET),
    _broken(62, "a GPU's controller has halted", _RESET),
    _broken(74, "an NVLink of a GPU has errors", "go on without that node, and have links and switch checked"),
    _broken(109, "a GPU could not switch to another program", _RESET),
    _broken(119, "a GPU's own processor did not answer the driver", _RESET),
    _broken(120, "a GPU's own processor has failed", _RESET),
    _broken(136, "an NVLink could not be trained", _RESET),
    _broken(143, "a GPU could not be initialised", _RESET),
    _broken("nvlink5-fatal", "an NVLink of a GPU has failed", _RESET, code="1(?:4[4-9]|50)", rest=r".{1,60}? Fatal\b"),
    _note("nvlink5", "an NVLink of a GPU has corrected an error", code="1(?:4[4-9]|50)"),
    _note("154-none", "a GPU needs no recovery", code="154", rest=r".{1,80}? to 0x\w+ \(None\)"),
    _broken(154, "a GPU asks to be recovered", "do what the line names: reset the GPU or reboot the node"),
    _broken("reset", "a GPU must be reset", _RESET, code=_any_of("RESET_GPU")),
    _again("restart", "a GPU ended a program", _AGAIN, code=_any_of("RESTART_APP")),
    _note("ignored", "a GPU's note that asks for nothing", code=_any_of("IGNORE")),
    _broken("other", "a GPU has failed", _SUPPORT, code=r"\d+"),
    root(
        "xid.switch-fatal",
        "an NVSwitch has failed",
        r"SXid \(PCI:(?P<device>[\dA-Fa-f:.]+)\): (?P<code>\d+), Fatal\b|detected NVSwitch fatal error (?:\d+)",
        ("SXid (PCI:", "NVSwitch fatal error"),
        Cause.NODE_FAILURE,
        _CATALOGUE,
        do="go on without that node, and have its switches reset",
        retry=Retry.ELSEWHERE,
        command="dmesg | grep SXid; tail /var/log/fabricmanager.log",
        avoid_node=True,
    ),
    advice(
        "xid.switch-note",
        "an NVSwitch has corrected an error",
        r"SXid \(PCI:(?P<device>[\dA-Fa-f:.]+)\): (?P<code>\d+), |detected NVSwitch non-fatal error (?:\d+)",
        ("SXid (PCI:", "NVSwitch non-fatal error"),
        _CATALOGUE,
    ),
    root(
        "xid.driver-mismatch",
        "the driver's library and its kernel module are of different releases",
        r"NVRM: API mismatch: the client has the version|Driver/library version mismatch",
        ("NVRM: API mismatch", "library version mismatch"),
        Cause.NODE_FAILURE,
        "NVIDIA's driver, public reports",
        do="go on without that node, and have it rebooted: its driver was updated while it ran",
        retry=Retry.ELSEWHERE,
        command="nvidia-smi; cat /proc/driver/nvidia/version",
        avoid_node=True,
    ),
    root(
        "xid.adapter-init",
        "the driver could not start a GPU",
        r"NVRM: (?:GPU (?P<device>[\dA-Fa-f:.]+): )?(?:RmInitAdapter failed|rm_init_adapter failed)",
        ("RmInitAdapter failed", "rm_init_adapter failed"),
        Cause.NODE_FAILURE,
        "NVIDIA's driver, public reports",
        do=_REBOOT,
        retry=Retry.ELSEWHERE,
        command=_LOOK,
        avoid_node=True,
    ),
)  # fmt: skip
