"""What became of an attempt of a run, or of a job: gathers what the run, Slurm and the files say, and has it told.

Why it ended comes from the same `diagnose` by which the supervisor decides: from the journal where the end stands
there, else from the same evidence now. Lines add who, where and what.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ConfigurationError, SlurmError
from slurm_resilience.launch.host_list import expand
from slurm_resilience.launch.plan import CommandKind, Plan, read_plan
from slurm_resilience.manifest.attempt import live_owner
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import process_liveness
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.slurm.client import JobRef, JobState, NodeRecord, SlurmClient
from slurm_resilience.slurm.commands import Commands
from slurm_resilience.supervisor.asking import Asking
from slurm_resilience.supervisor.evidence import Seen, gather
from slurm_resilience.supervisor.job_output import (
    files_by_name,
    files_by_slurm,
    remembered_output,
)
from slurm_resilience.supervisor.slurms_word import SlurmsWord, ask_for_it
from slurm_resilience.supervisor.witnesses import agent_records, health_of_nodes, task_ends, unheard
from slurm_resilience.triage.account.account import Account, Verdict
from slurm_resilience.triage.account.case import account_of_files, read_reports
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.diagnosis import Evidence, diagnose

ASK_S = 10.0
"""For all that is asked of Slurm."""
VAGUE = frozenset({Cause.CRASHED, Cause.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Asked:
    """How the account is to be made. `slurm` None: Slurm isn't asked."""

    slurm: SlurmClient | None
    commands: Commands | None
    say: Callable[[str], None]
    extra: tuple[Path, ...] = ()
    """Files and folders that the user has named besides."""
    folders: tuple[Path, ...] = ()
    """Where a job's output may lie: the working directory."""
    progress: Callable[[int, int], None] | None = None
    workers: int | None = None


def account_of_run(path: Path, number: int | None, asked: Asked) -> Account:
    """Of attempt `number`, or the newest that has ended. Raises ManifestError; ConfigurationError for no attempt."""
    run = RunDirectory(path)
    chain = Chain.of(Journal(run).read())
    attempt = choose_attempt(path, chain, number)
    facts = facts_of_attempt(run, chain, attempt, asked)
    logs, since = logs_of_attempt(run, attempt, asked)
    return account_of_files(logs, facts, since=since, progress=asked.progress, workers=asked.workers)


def choose_attempt(path: Path, chain: Chain, number: int | None) -> Attempt:
    """Raises ConfigurationError where there is none."""
    if number is not None:
        attempt = chain.attempt(number)
        if attempt is None:
            newest = chain.newest_attempt
            count = "none yet" if newest is None else f"those up to {newest.number}"
            raise ConfigurationError(f"run {path} has no attempt {number}: it has {count}")
        return attempt
    ended = [attempt for attempt in chain.attempts if attempt.ended is not None]
    newest = chain.newest_attempt
    if newest is None:
        raise ConfigurationError(f"run {path} has had no attempt yet: there is nothing to tell")
    return ended[-1] if ended else newest


def facts_of_attempt(run: RunDirectory, chain: Chain, attempt: Attempt, asked: Asked) -> Facts:
    plan = _plan(run, attempt.number)
    agents = agent_records(run, attempt.number, asked.say)
    job = attempt.started.job
    nodes = tuple(expand(attempt.started.nodes)) if attempt.started.nodes else ()
    taken = tuple(dict.fromkeys(agent.host for agent in agents))
    expected = plan.tasks if plan is not None else len(agents)
    verdict = _verdict(run, chain, attempt, asked, plan)
    restarts = attempt.started.restart_count
    reports = read_reports([run.preflight(job, restarts)])
    health = tuple(str(note) for note in health_of_nodes(run, attempt, asked.say))
    asked_s = [agent.stop_asked_s for agent in agents if agent.stop_asked_s is not None]
    return Facts(
        about=f"attempt {attempt.number} of run {run.path}" + (f" (job {job})" if job is not None else ""),
        verdict=verdict,
        job=job,
        attempt=attempt.number,
        nodes=nodes if plan is None or plan.nodes >= len(nodes) else tuple(node for node in nodes if node in taken),
        world_size=attempt.resumed.world_size if attempt.resumed is not None else None,
        agents=tuple(agents),
        unheard=unheard(attempt, agents, expected),
        exit_notes=task_ends(run, chain, attempt, asked.say),
        task_is_rank=plan is not None and plan.kind is CommandKind.TASK,
        ranks_per_node=plan.nproc_per_node if plan is not None and isinstance(plan.nproc_per_node, int) else None,
        attempt_by_torchrun=plan is not None and plan.kind is CommandKind.TORCHRUN,
        stop_asked_s=min(asked_s, default=None),
        offsets_s=reports.offsets_s,
        notes=(*_still_running(attempt, verdict), *reports.notes, *health, *node_notes(asked, nodes, verdict)),
    )


def _plan(run: RunDirectory, attempt: int) -> Plan | None:
    try:
        return read_plan(run.plan(attempt))
    except (ConfigurationError, TypeError, KeyError):
        return None


def _still_running(attempt: Attempt, verdict: Verdict | None) -> tuple[str, ...]:
    if attempt.ended is not None:
        return ()
    if verdict is None:
        return ("this attempt is still running",)
    return ("nobody has told how this attempt ended: it may still run",)


def _still_runs(run: RunDirectory, chain: Chain, attempt: Attempt, asked: Asked) -> bool:
    """By its supervisor's process, where it can be seen from here, or by Slurm."""
    owner = live_owner(run, chain)
    if owner is None or owner.attempt != attempt.number:
        return False
    seen = process_liveness(owner)
    if seen is Liveness.UNKNOWN and asked.slurm is not None and attempt.started.job is not None:
        with contextlib.suppress(SlurmError):
            record = asked.slurm.job(JobRef(attempt.started.job))
            return record is not None and record.state is JobState.RUNNING and not record.completing
    return seen is Liveness.ALIVE


def _verdict(run: RunDirectory, chain: Chain, attempt: Attempt, asked: Asked, plan: Plan | None) -> Verdict | None:
    ended = attempt.ended
    if ended is not None:
        explains = ended.cause not in VAGUE
        return Verdict(
            ended.cause,
            ended.because,
            "the run's journal",
            explains=explains,
            decision=ended.decision,
            decision_reason=ended.decision_reason,
        )
    if _still_runs(run, chain, attempt, asked):
        return None
    seen = Seen(None, (), True, plan.tasks if plan is not None else 0, plan.end_s if plan is not None else None)
    word = slurms_word(asked, attempt.started.job)
    evidence = gather(run, chain, attempt, seen, word, now_s=SystemClock().now_s(), say=asked.say)
    evidence = replace(evidence, now_s=_last_sign(evidence), fenced=False)
    return replace(as_verdict(evidence, "the run's own record"), firm=False)


def _last_sign(evidence: Evidence) -> float:
    """When somebody was last heard: the end is judged as of then, however late it is asked for."""
    heard = [agent.ended_s for agent in evidence.agents if agent.ended_s is not None]
    heard += [time_s for agent in evidence.agents for _, time_s in agent.signals]
    heard += [note.time_s for note in evidence.exit_notes]
    return max(heard, default=evidence.now_s)


def as_verdict(evidence: Evidence, by: str) -> Verdict:
    diagnosis = diagnose(evidence)
    return Verdict(diagnosis.cause, diagnosis.because, by, explains=diagnosis.cause not in VAGUE)


def slurms_word(asked: Asked, job: str | None) -> SlurmsWord:
    if asked.slurm is None or job is None:
        return SlurmsWord()
    clock = SystemClock()
    asking = Asking(clock, asked.say, clock.monotonic_s() + ASK_S)
    return ask_for_it(asked.slurm, job, asking, asked.say, afterwards=True)


def node_notes(asked: Asked, nodes: Sequence[str], verdict: Verdict | None) -> tuple[str, ...]:
    """What Slurm says of nodes that are down or drained now; asked where nobody else explains the end."""
    if (
        asked.slurm is None
        or not nodes
        or verdict is None
        or (verdict.explains and verdict.cause is not Cause.NODE_FAILURE)
    ):
        return ()
    records: tuple[NodeRecord, ...] = ()
    with contextlib.suppress(SlurmError):
        records = asked.slurm.nodes(",".join(nodes))
    bad = {"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING"}
    return tuple(
        f"Slurm says of node {one.name} now: {'+'.join(one.states)}" + (f", {one.reason}" if one.reason else "")
        for one in records
        if bad & {state.rstrip("*") for state in one.states}
    )


def logs_of_attempt(run: RunDirectory, attempt: Attempt, asked: Asked) -> tuple[list[Path], dict[Path, int]]:
    """The attempt's own folder, the job's output, and what the user has named."""
    folder = run.attempt(attempt.number)
    logs = [*asked.extra, *([folder] if folder.is_dir() else [])]
    since: dict[Path, int] = {}
    output = remembered_output(run, attempt.number)
    if output is not None and output.path.exists():
        logs.append(output.path)
        with contextlib.suppress(OSError):
            if output.path.stat().st_size >= output.since_byte:  # else it was cut off and written anew
                since[output.path] = output.since_byte
    elif attempt.started.job is not None:
        logs += outputs_of_job(attempt.started.job, (run.path, run.path.parent, run.path.parent.parent), asked)
    return list(dict.fromkeys(logs)), since


def outputs_of_job(job: str, folders: Sequence[Path], asked: Asked) -> tuple[Path, ...]:
    shown = files_by_slurm(asked.commands, job) if asked.commands is not None else None
    there = tuple(path for path in shown.outputs if path.exists()) if shown is not None else ()
    if there:
        return there
    more = (shown.folder,) if shown is not None and shown.folder is not None else ()
    return files_by_name(job, (*more, *folders, *asked.folders))
