"""One tiny job step that shows whether the nodes have loaded the plugin too: its command, and what its answer means.

srun itself sets SLURM_RESILIENCE_CONTINUE, and the task inherits it: that alone doesn't show that the node knows the
plugin, and slurmstepd says nothing where it doesn't (22.05.8 and 24.11.5). The relay's folder and the exit note come
from nowhere else than the node. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_resilience.spank.finding import Finding, fine, unknown, wrong

LIMIT_S = 60
_MARK = "slurm-resilience-probe"
_SCRIPT = f"""
for name in SLURM_JOB_ID SLURM_STEP_ID SLURMD_NODENAME SLURM_RESILIENCE_CONTINUE SLURM_RESILIENCE_RELAY; do
    eval "value=\\${{$name:-}}"
    echo "{_MARK} $name=$value"
done
[ -f "${{SLURM_RESILIENCE_RELAY:-/nowhere}}/stop" ] && echo "{_MARK} folder=there"
exit 0
"""
_LOCAL = ("SLURM_RESILIENCE_", "SLURM_SPANK_", "_SLURM_SPANK_", "SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV")


def probe_command(job_name: str, *, inside_a_job: bool) -> list[str]:
    """At most 50 s for a free node: then srun gives up by itself, and leaves no job behind."""
    where = ["--overlap"] if inside_a_job else ["--immediate=50", "--time=1"]
    named = [f"--job-name={job_name}", "--nodes=1", "--ntasks=1", "--resilient"]
    return ["srun", *named, *where, "/bin/sh", "-c", _SCRIPT]


def announcement(argv: list[str]) -> str:
    shown = " ".join(argv[:-1])
    return f"probe: one task on one node prints its environment, within {LIMIT_S} s: `{shown} …`"


def probe_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what an earlier srun or srun-resilient has left there."""
    return {name: value for name, value in environment.items() if not name.startswith(_LOCAL)}


@dataclass(frozen=True, slots=True)
class Probed:
    """None: the task didn't say so, or nobody could look."""

    code: int
    complaint: str
    """What srun said."""
    job: str | None = None
    step: str | None = None
    node: str | None = None
    asked: bool = False
    """Whether the option came to the task at all."""
    relay: str | None = None
    folder: bool = False
    exit_note: bool | None = None


def read_probe(code: int, out: str, err: str) -> Probed:
    said = dict(
        line.removeprefix(_MARK).strip().split("=", 1)
        for line in out.splitlines()
        if line.startswith(_MARK) and "=" in line
    )
    words = [line.strip() for line in err.splitlines() if line.strip()]
    return Probed(
        code=code,
        complaint=words[-1] if words else "no message",
        job=said.get("SLURM_JOB_ID") or None,
        step=said.get("SLURM_STEP_ID") or None,
        node=said.get("SLURMD_NODENAME") or None,
        asked=bool(said.get("SLURM_RESILIENCE_CONTINUE")),
        relay=said.get("SLURM_RESILIENCE_RELAY") or None,
        folder=said.get("folder") == "there",
    )


def judge_probe(probed: Probed, *, relay_expected: bool) -> Finding:
    if probed.code != 0 or probed.job is None:
        sentence = f"the job step did not run (srun left with {probed.code}: {probed.complaint})"
        return wrong("probe", sentence, "try the same srun by hand, without --resilient")
    step = f"step {probed.job}.{probed.step} on {probed.node}"
    if probed.relay is not None and probed.folder:
        return fine("probe", f"{step} had the plugin and its relay{_note(probed)}")
    if not probed.asked:
        return wrong("probe", f"{step} was not told of --resilient", "see what else is wrong in this list")
    if relay_expected and probed.exit_note:
        sentence = f"{step} had the plugin, but no relay{_note(probed)}"
        return wrong("probe", sentence, f"slurmd's log on {probed.node} says why the relay did not start")
    if relay_expected:
        sentence = f"{step} had no relay: {probed.node} has not loaded the plugin, or its relay did not start"
        to_do = f"run `slurm-resilience spank doctor` on {probed.node}, and see slurmd's log there"
        return wrong("probe", sentence, to_do)
    if probed.exit_note:
        return fine("probe", f"{step} had the plugin; it left its exit note")
    sentence = f"{step} ran; whether {probed.node} has loaded the plugin can't be seen without a relay from here"
    return unknown("probe", sentence, f"run `slurm-resilience spank doctor` on {probed.node}")


def _note(probed: Probed) -> str:
    match probed.exit_note:
        case True:
            return "; it left its exit note"
        case False:
            return "; its exit note is missing"
        case None:
            return "; its exit note lies on that node"
