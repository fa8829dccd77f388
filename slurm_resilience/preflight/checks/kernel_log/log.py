"""Check `kernel-log`: what the kernel said about hardware since the machine started."""

from __future__ import annotations

from collections.abc import Iterable

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.gpu.furniture import closed_to_us
from slurm_resilience.preflight.checks.kernel_log.source import Unreadable, kernel_log
from slurm_resilience.preflight.checks.kernel_log.trouble import troubles
from slurm_resilience.preflight.checks.reading import text_of
from slurm_resilience.preflight.checks.summary import age, counted, listed, summed_up
from slurm_resilience.preflight.result import Finding, skipped


def log(context: Context, tell: Tell) -> Iterable[Finding]:
    try:
        lines = kernel_log(context.root, tell)
    except Unreadable as why:
        return [skipped(f"the kernel's log may not be read by this user ({why})")]
    uptime = (text_of(context.root / "proc" / "uptime") or "").split()
    newest = max((line.at_s for line in lines if line.at_s is not None), default=0.0)
    uptime_s = max(float(uptime[0]) if uptime else 0.0, newest)
    problems, told = troubles(lines, uptime_s=uptime_s, of_others=closed_to_us(context.root))
    fine = f"nothing about hardware in {counted(len(lines), 'line')} since the start {age(uptime_s)} ago"
    if told:
        fine = f"nothing that still counts; {listed(told)}"
    return summed_up(problems, fine, {"lines": len(lines), "told": told or None})
