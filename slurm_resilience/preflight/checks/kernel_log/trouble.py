"""Which lines of the kernel's log are trouble with hardware, and whether it still counts. Pure.

What was repaired must not haunt a node: a line counts for two hours (Azure's window), older ones of this boot are only
told. What ends with a word of its own (a file server that answers again) counts by its newest word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_resilience.preflight.checks.kernel_log.xid import Action, mends, read_sxid, read_xid
from slurm_resilience.preflight.checks.summary import age, counted
from slurm_resilience.preflight.result import Finding, Outcome, Problem, fail, warn

WINDOW_S = 2 * 3600.0
_BOOTING_S = 300.0
"""Links come and go while a machine starts: that is no flapping."""
_FLAPS = 2
"""Once is a cable that somebody plugged in."""
_LEAVE_OUT = "leave the node out (--exclude) and tell the admins"
_QUOTED = 150
_HARMLESS = (Action.NOTHING, Action.RESTART_PROGRAM)
_URGENT = (Action.LOOK_AT_NODE, Action.RESTART_NODE, Action.RESET, Action.SUPPORT)


@dataclass(frozen=True, slots=True)
class Line:
    at_s: float | None
    """Since the machine started. None: the log has no times."""
    text: str


@dataclass(frozen=True, slots=True)
class _Kind:
    pattern: re.Pattern[str]
    outcome: Outcome
    """OK: it is only told."""
    what: str


def _kind(pattern: str, outcome: Outcome, what: str) -> _Kind:
    return _Kind(re.compile(pattern), outcome, what)


_KINDS = (
    _kind(
        r"Memory failure: 0x|EDAC \S+: \d+ UE |Uncorrected hardware (memory )?error"
        r"|Hardware Error.*event severity: (fatal|recoverable)|mce: .*Uncorrected",
        Outcome.FAIL,
        "uncorrected errors of the main memory or a processor",
    ),
    _kind(r"AER:.*Uncorrect(ed|able) \(Fatal\)", Outcome.FAIL, "fatal errors on the PCI bus"),
    _kind(
        r"(I/O|critical (medium|target)) error, dev (?!sr|fd|loop|ram)|Buffer I/O error on dev(ice)? (?!sr|fd|loop|ram)"
        r"|nvme\d+: .*(controller is down|timeout, (reset|disable) controller)",
        Outcome.WARN,
        "errors of a disk",
    ),
    _kind(
        r"EXT4-fs error|Remounting filesystem read-only|XFS \([^)]*\): .*([Ss]hutdown|[Ss]hutting down|[Cc]orruption)"
        r"|BTRFS.*(forced readonly|error \(device)",
        Outcome.WARN,
        "errors of a file system",
    ),
    _kind(r"EDAC \S+: \d+ CE |mce: .*Machine check events logged", Outcome.OK, "corrected errors of the memory"),
    _kind(r"NETDEV WATCHDOG:|mlx5_core .*health compromised", Outcome.WARN, "a network card that stood still"),
)
_SERVER = re.compile(r"nfs: server (\S+?),? (not responding|OK)")
_LUSTRE = re.compile(r"Lustre: (\S+): Connection (?:to \S+ .*was (lost)|(restored))")
_LINK = re.compile(
    r"(?:^|\s)([a-z][\w.]*)(?:: | )(?:[Ll]ink is |[Ll]ink |NIC Link is |link status definitely )(Down|down|Up|up)\b"
)
_SLAVE = re.compile(r"\(slave (\S+)\): link status definitely (down|up)")
_VIRTUAL = re.compile(r"(veth|docker|br-|cali|virbr|vnet|tap|tun|cni|flannel|lo$|dummy)")


def troubles(
    lines: Sequence[Line], *, uptime_s: float, of_others: frozenset[str] = frozenset()
) -> tuple[list[Finding], list[str]]:
    """What still counts, and what is only told. `of_others`: where on the bus cards are that the job may not use."""
    told: list[str] = []
    problems = _of_gpus(lines, uptime_s, told, of_others)
    for kind in _KINDS:
        problems += _of_kind(kind, lines, uptime_s, told)
    problems += _of_servers(lines, uptime_s)
    problems += _of_links(lines, uptime_s, told)
    return problems, told


def _recent(line: Line, uptime_s: float) -> bool:
    return line.at_s is None or uptime_s - line.at_s <= WINDOW_S  # without times all of it counts


def _when(line: Line, uptime_s: float) -> str:
    return "at a time unknown" if line.at_s is None else f"{age(uptime_s - line.at_s)} ago"


def _of_gpus(lines: Iterable[Line], uptime_s: float, told: list[str], of_others: frozenset[str]) -> list[Finding]:
    """One finding a card: an Xid seldom comes alone."""
    seen: dict[str, dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
    actions: dict[tuple[str, str], Action] = {}
    for line in lines:
        mended = mends(line.text)
        xid, sxid = read_xid(line.text), read_sxid(line.text)
        if mended is not None:
            seen.pop(mended, None)
        elif xid is not None:
            name = f"Xid {xid[1]}"
            seen[xid[0]][name].append(line)
            actions[xid[0], name] = xid[2]
        elif sxid is not None:
            name = f"SXid {sxid[1]}"
            seen[sxid[0]][name].append(line)
            actions[sxid[0], name] = Action.RESET if sxid[2] else Action.NOTHING
    problems = []
    for bus, by_name in seen.items():
        counts = {
            name: of_it
            for name, of_it in by_name.items()
            if actions[bus, name] not in _HARMLESS and _recent(of_it[-1], uptime_s)
        }
        told += [_said_of(bus, [name], of_it, uptime_s) for name, of_it in by_name.items() if name not in counts]
        if counts:
            wanted = [actions[bus, name] for name in counts]
            newest = [line for of_it in counts.values() for line in of_it]
            text = _said_of(bus, list(counts), newest, uptime_s)
            ours = bus.lower().partition(".")[0] not in of_others
            problems.append(_of_card(text, wanted, newest[-1].text[:_QUOTED], ours=ours))
    return problems


def _said_of(bus: str, names: Sequence[str], lines: Sequence[Line], uptime_s: float) -> str:
    newest = max(lines, key=lambda line: line.at_s or 0.0)
    return f"{', '.join(names)} of {bus}, {counted(len(lines), 'time')}, the last {_when(newest, uptime_s)}"


def _of_card(text: str, wanted: Sequence[Action], newest: str, *, ours: bool) -> Finding:
    """A card of another job's is no reason to do without the node, unless the whole node must be started anew."""
    action = min(wanted, key=_URGENT.index)
    if action is Action.SUPPORT:
        return warn(Problem.NODE, f"{text}: {action.value}", "tell the admins", newest=newest)
    text = f"{text}: NVIDIA asks that {action.value}"
    if not ours and action is not Action.RESTART_NODE:
        return warn(Problem.NODE, f"{text} (no card of this job's)", "tell the admins", newest=newest)
    return fail(Problem.NODE, text, _LEAVE_OUT, newest=newest)


def _of_kind(kind: _Kind, lines: Iterable[Line], uptime_s: float, told: list[str]) -> list[Finding]:
    found = [line for line in lines if kind.pattern.search(line.text)]
    if not found:
        return []
    text = f"{kind.what}: {counted(len(found), 'line')}, the last {_when(found[-1], uptime_s)}"
    if kind.outcome is Outcome.OK or not _recent(found[-1], uptime_s):
        told.append(text)
        return []
    say = fail if kind.outcome is Outcome.FAIL else warn
    return [say(Problem.NODE, text, _LEAVE_OUT, newest=found[-1].text[:_QUOTED])]


def _of_servers(lines: Iterable[Line], uptime_s: float) -> list[Finding]:
    silent: dict[str, Line] = {}
    for line in lines:
        nfs, lustre = _SERVER.search(line.text), _LUSTRE.search(line.text)
        server, lost = (nfs[1], nfs[2] != "OK") if nfs else (lustre[1], bool(lustre[2])) if lustre else (None, False)
        if server is not None and lost:
            silent[server] = line
        elif server is not None:
            silent.pop(server, None)
    return [
        warn(
            Problem.NODE,
            f"file server {server} didn't answer {_when(line, uptime_s)}, and nothing says that it does again",
            "see whether the folders on it answer (ls); if not, tell the admins",
        )
        for server, line in silent.items()
    ]


def _of_links(lines: Iterable[Line], uptime_s: float, told: list[str]) -> list[Finding]:
    downs: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        link = _SLAVE.search(line.text) or _LINK.search(line.text)
        settled = line.at_s is not None and line.at_s > _BOOTING_S
        if link and link[2].lower() == "down" and settled and _recent(line, uptime_s) and not _VIRTUAL.match(link[1]):
            downs[link[1]].append(line)
    problems = []
    for interface, of_it in sorted(downs.items()):
        text = f"the link of {interface} went down {counted(len(of_it), 'time')} in the last {age(WINDOW_S)}"
        if len(of_it) < _FLAPS:
            told.append(text)
        else:
            problems.append(warn(Problem.NODE, text, "tell the admins: cable, optics or switch", flaps=len(of_it)))
    return problems
