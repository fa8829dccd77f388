"""Likenesses of /proc and /sys, and what a check says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_resilience.command import Completed
from slurm_resilience.errors import CommandMissing, CommandTimedOut
from slurm_resilience.preflight.check import Context
from slurm_resilience.preflight.result import Finding, Outcome

GIB, MIB = 1 << 30, 1 << 20

V2 = {
    "proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_12/step_0\n",
    "sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/memory.max": str(40 * GIB),
    "sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/memory.current": str(8 * GIB),
    "sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/step_0/memory.max": "max",
    "sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/cpu.max": "250000 100000",
}
V1 = {
    "proc/self/cgroup": "5:memory:/slurm/uid_1000/job_12\n3:cpu,cpuacct:/slurm/uid_1000/job_12\n1:name=systemd:/\n",
    "sys/fs/cgroup/memory/slurm/uid_1000/job_12/memory.limit_in_bytes": str(40 * GIB),
    "sys/fs/cgroup/memory/slurm/uid_1000/job_12/memory.usage_in_bytes": str(8 * GIB),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/cpu,cpuacct/slurm/uid_1000/job_12/cpu.cfs_quota_us": "250000",
    "sys/fs/cgroup/cpu,cpuacct/slurm/uid_1000/job_12/cpu.cfs_period_us": "100000",
}
"""The same job in both versions of cgroups."""


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def context(root: Path, environment: Mapping[str, str] | None = None, **more: Any) -> Context:
    return Context(node="n1", environment=environment or {}, root=root, **more)


class Told:
    """What a check says it is about to do."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)


def findings(check: Callable[..., Iterable[Finding]], context: Context, *more: Any, **named: Any) -> list[Finding]:
    found = list(check(context, Told(), *more, **named))
    assert found, "a check without a finding is broken"
    for each in found:
        complete(each)
    return found


def complete(finding: Finding) -> None:
    """A sentence without its full stop; whose problem it is and what to do, exactly where something is wrong."""
    assert finding.sentence
    assert not finding.sentence.endswith(".")
    wrong = finding.outcome in (Outcome.WARN, Outcome.FAIL)
    assert (finding.problem is not None) == wrong
    assert bool(finding.remedy) == wrong


def only(check: Callable[..., Iterable[Finding]], context: Context, *more: Any, **named: Any) -> Finding:
    found = findings(check, context, *more, **named)
    assert len(found) == 1, [each.sentence for each in found]
    return found[0]


def outcomes(found: Iterable[Finding]) -> list[str]:
    return [each.outcome.value for each in found]


class Programs:
    """Stands for `command.run`: what each program says, by its name or its whole line."""

    def __init__(self, answers: Mapping[str, str | int]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, argv: Iterable[str], **_how: Any) -> Completed:
        words = tuple(argv)
        self.asked.append(words)
        answer = self._answers.get(" ".join(words), self._answers.get(words[0]))
        if answer is None:
            raise CommandMissing(f"there is no program {words[0]!r} here")
        if answer == "hangs":
            raise CommandTimedOut(f"{' '.join(words)} did not answer within 2 s")
        if isinstance(answer, int):
            return Completed(words, answer, "", "no")
        return Completed(words, 0, answer, "")


def process(pid: int, name: str, state: str, *, parent: int = 1, job: str | None = None) -> dict[str, str]:
    stat = f"{pid} ({name}) {state} {parent} " + " ".join(["0"] * 15) + " 1 " + " ".join(["0"] * 30)
    files = {f"proc/{pid}/stat": stat}
    if job is not None:
        files[f"proc/{pid}/environ"] = f"SLURM_JOB_ID={job}\0"
    return files
