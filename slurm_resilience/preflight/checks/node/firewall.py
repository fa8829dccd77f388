"""Check `firewall`: what is there that could forbid connections, and programs. An explanation, never a verdict.

Whether the nodes reach each other, real connections tell (the round `tcp`). Reading rules would need root, and would
answer another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandError
from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.reading import number_in, text_of
from slurm_resilience.preflight.result import Finding, ok, skipped

_ANSWER_S = 2.0
Runner = Callable[..., Completed]


def firewall(context: Context, tell: Tell, runner: Runner = run) -> Iterable[Finding]:
    states = _mandatory(context)
    modules = {line.split(" ", 1)[0] for line in (text_of(context.root / "proc" / "modules") or "").splitlines()}
    tables = (text_of(context.root / "proc" / "net" / "ip_tables_names") or "").split()
    if tables or "iptable_filter" in modules:
        states["iptables"] = "loaded"
    if "nf_tables" in modules:
        states["nftables"] = "loaded"
    states.update(_asked(tell, runner))
    if not states:
        return [skipped("nothing to be seen of a firewall or of SELinux")]
    told = ", ".join(f"{name} {state}" for name, state in states.items())
    return [ok(f"{told} (an explanation, should connections fail)", states=states)]


def _mandatory(context: Context) -> dict[str, str]:
    states = {}
    enforcing = number_in(context.root / "sys" / "fs" / "selinux" / "enforce")
    if enforcing is not None:
        states["SELinux"] = "enforcing" if enforcing else "permissive"
    if text_of(context.root / "sys" / "module" / "apparmor" / "parameters" / "enabled") == "Y":
        states["AppArmor"] = "enabled"
    return states


def _asked(tell: Tell, runner: Runner) -> dict[str, str]:
    """As far as the commands are here and answer this user."""
    states = {}
    for name, argv in (
        ("firewalld", ["firewall-cmd", "--state"]),
        ("ufw", ["ufw", "status"]),
        ("nftables", ["nft", "list", "ruleset"]),
        ("iptables", ["iptables", "-S", "-w", "1"]),
    ):
        tell(f"running {argv[0]}")
        try:
            done = runner(argv, timeout_s=_ANSWER_S)
        except CommandError:
            continue
        if done.code != 0:
            continue
        if name in ("firewalld", "ufw"):
            states[name] = (done.out.strip().splitlines() or ["answers"])[0]
        else:
            refusing = sum(any(word in line.lower() for word in ("drop", "reject")) for line in done.out.splitlines())
            states[name] = f"with {refusing} rules that refuse" if refusing else "refuses nothing"
    return states
