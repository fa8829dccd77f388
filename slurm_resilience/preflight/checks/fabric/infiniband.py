"""Check `infiniband`: the RDMA ports that the job will use carry something, and all the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.fabric.nccl_names import Names, nccl_names
from slurm_resilience.preflight.checks.fabric.nccl_settings import nccl_setting
from slurm_resilience.preflight.checks.fabric.ports import Port, ports
from slurm_resilience.preflight.checks.summary import counted, earlier, listed, summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn

_LEAVE_OUT = "leave the node out (--exclude) and tell the admins: cable, switch or subnet manager"


def infiniband(context: Context, tell: Tell) -> Iterable[Finding]:
    tell("reading /sys/class/infiniband")
    found = ports(context.root)
    if not found:
        return [skipped("there is no InfiniBand or RoCE here")]
    said = nccl_setting(context, "NCCL_IB_HCA")
    names = nccl_names(said[0]) if said else None
    used = [port for port in found if names is None or names.mean(port.device, port.number)]
    if not used and said:
        return [_nothing_named(said, found)]
    before = earlier(context, "infiniband", "active")
    downs = earlier(context, "infiniband", "downs")
    wanted = [port for port in used if port.wanted]
    if not wanted:
        return [skipped(f"{counted(len(used), 'port')}, all switched off")]
    problems = judge(wanted, names=names, before=before[-1] if before else None, downs=downs[-1] if downs else None)
    return summed_up(problems, _fine(wanted), _facts(wanted))


def judge(wanted: Sequence[Port], *, names: Names | None, before: Any = None, downs: Any = None) -> list[Finding]:
    """`before` and `downs`: by port, whether it was active (1, 0), how often it had gone down: the last time here."""
    working = [port for port in wanted if port.works]
    idle = (
        _not_working(port, names, _of(before, port), one_of_many=bool(working)) for port in wanted if not port.works
    )
    problems = [each for each in idle if each is not None]
    unknown = [port for port in wanted if not port.works and _of(before, port) is None]
    if not working and not problems and unknown:
        problems = [_unconnected(wanted)]
    return [*problems, *_slower(working), *_flapped(working, downs)]


def _not_working(port: Port, names: Names | None, before: int | None, *, one_of_many: bool) -> Finding | None:
    sentence = f"port {port.name} is {port.state or 'in an unknown state'}, its link {port.link or 'unknown'}"
    if names is not None and not names.others:
        return fail(Problem.NODE, f"{sentence}, and NCCL_IB_HCA names it", _LEAVE_OUT)
    if before:
        return fail(Problem.NODE, f"{sentence}; at the last preflight it was active", _LEAVE_OUT)
    if port.link == "LinkUp":  # there is a cable, and nobody manages what it leads to
        return fail(Problem.NODE, sentence, _LEAVE_OUT)
    if before is None and one_of_many:
        text = f"{sentence}, while others of this node are active"
        return warn(Problem.NODE, text, "if it should be, tell the admins; if not, name the others in NCCL_IB_HCA")
    return None  # nobody ever cabled it


def _unconnected(wanted: Sequence[Port]) -> Finding:
    return warn(
        Problem.NODE,
        f"none of {counted(len(wanted), 'RDMA port')} is connected: NCCL will use sockets",
        "if they should be, tell the admins; name those of the job in NCCL_IB_HCA to be told when one of them is down",
    )


def _slower(working: Sequence[Port]) -> list[Finding]:
    problems = []
    for layer, board in sorted({(port.layer, port.board) for port in working}):
        alike = [port for port in working if (port.layer, port.board) == (layer, board)]
        rates = {port.name: port.rate_gb_s for port in alike if port.rate_gb_s}
        best = max(rates.values(), default=0.0)
        slow = [f"{name} ({rate:g} Gb/s)" for name, rate in rates.items() if rate < best]
        if slow:
            text = f"{listed(slow)}: slower than the other {layer} ports, which have {best:g} Gb/s"
            problems.append(warn(Problem.NODE, text, f"{_LEAVE_OUT}; or name the fast ones in NCCL_IB_HCA"))
    return problems


def _flapped(working: Sequence[Port], downs: Any) -> list[Finding]:
    problems = []
    for port in working:
        before = _of(downs, port)
        if port.downs is not None and isinstance(before, int) and port.downs > before:
            times = counted(port.downs - before, "time")
            text = f"the link of {port.name} went down {times} since the last preflight here"
            problems.append(warn(Problem.NODE, text, "tell the admins: cable, optics or switch"))
    return problems


def _nothing_named(said: tuple[str, str], found: Sequence[Port]) -> Finding:
    text = f"{said[1]}={said[0]} names no RDMA device of this node, which has {listed(port.device for port in found)}"
    return fail(Problem.USER, text, "name devices that each node has, or unset it")


def _of(by_port: Any, port: Port) -> Any:
    return by_port.get(port.name) if isinstance(by_port, dict) else None


def _fine(wanted: Sequence[Port]) -> str:
    working = [port for port in wanted if port.works]
    rates = sorted({f"{port.layer} {port.rate_gb_s:g} Gb/s" for port in working if port.rate_gb_s})
    idle = len(wanted) - len(working)
    told = f"{counted(len(working), 'port')} active" + (f" ({', '.join(rates)})" if rates else "")
    return f"{told}; {counted(idle, 'port')} not connected, which is not new" if idle else told


def _facts(wanted: Sequence[Port]) -> dict[str, Any]:
    return {
        "active": {port.name: int(port.works) for port in wanted},  # numbers, which a baseline keeps
        "ports": {port.name: port.state for port in wanted},
        "rates_gb_s": {port.name: port.rate_gb_s for port in wanted if port.rate_gb_s is not None},
        "downs": {port.name: port.downs for port in wanted if port.downs is not None} or None,
    }
