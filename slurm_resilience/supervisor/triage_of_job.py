"""What became of a job: of the attempt of the run that its output names, or by Slurm and its output alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.host_list import expand
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState
from slurm_resilience.supervisor.job_output import run_named_in
from slurm_resilience.supervisor.slurms_word import SlurmsWord
from slurm_resilience.supervisor.triage_of_run import (
    Asked,
    account_of_run,
    as_verdict,
    node_notes,
    outputs_of_job,
    slurms_word,
)
from slurm_resilience.triage.account.account import Account, Verdict
from slurm_resilience.triage.account.case import account_of_files
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.diagnosis import Evidence


def account_of_job(job: str, number: int | None, asked: Asked) -> Account:
    """Of its run's attempt where the output says which run it is of. Raises ConfigurationError for an unknown job."""
    outputs = outputs_of_job(job, (), asked)
    run = run_named_in(outputs)
    if run is not None:
        found = attempt_of_job(run, job) if number is None else number
        return account_of_run(run, found, replace(asked, extra=(*asked.extra, *outputs)))
    word = slurms_word(asked, job)
    if word.record is None and not word.lives and not outputs and not asked.extra:
        raise ConfigurationError(f"job {job}: Slurm doesn't know it, and no file here has its number in its name")
    nodes = word.record.nodes if word.record is not None else word.lives[-1].nodes if word.lives else ""
    facts = Facts(
        about=f"job {job}",
        verdict=_verdict_on_job(word),
        job=job,
        attempt=number,
        nodes=tuple(expand(nodes)) if nodes and not nodes.startswith("None") else (),
        releases=_releases(word),
    )
    facts = replace(facts, notes=node_notes(asked, facts.nodes, facts.verdict))
    return account_of_files([*asked.extra, *outputs], facts, progress=asked.progress, workers=asked.workers)


def attempt_of_job(run: Path, job: str) -> int | None:
    """The newest attempt that the job made, ended ones first."""
    made = [one for one in Chain.of(Journal(RunDirectory(run)).read()).attempts if one.started.job == job]
    ended = [one for one in made if one.ended is not None]
    return ended[-1].number if ended else made[-1].number if made else None


def _releases(word: SlurmsWord) -> Mapping[str, str]:
    return {} if word.release is None else {"slurm": f"{word.release[0]}.{word.release[1]:02d}"}


def _verdict_on_job(word: SlurmsWord) -> Verdict | None:
    """By Slurm's record alone, through the same diagnosis; None: it isn't over, or Slurm says nothing."""
    record, life = word.record, word.lives[-1] if word.lives else None
    state = record.state if record is not None else life.state if life is not None else None
    if state is None or (record is not None and _lives(record)):
        return None
    if state is JobState.COMPLETED:
        return Verdict(Cause.FINISHED, "Slurm lists the job as COMPLETED", "Slurm's record")
    evidence = Evidence(
        training_finished=False,
        agents=(),
        agents_expected=0,
        unheard=(),
        command_code=None,
        supervisor_signals=(),
        supervisor_died=False,
        record=record,
        in_grace=False,
        slurm=True,
        restarts_at_start=record.restarts if record is not None else 0,
        end_s=record.end_s if record is not None else None,
        now_s=SystemClock().now_s(),
        lives=word.lives,
        release=word.release,
        preempt_mode=word.preempt_mode,
    )
    return as_verdict(evidence, "Slurm's record")


def _lives(record: JobRecord) -> bool:
    return record.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.PENDING)


def job_ref(text: str) -> JobRef | None:
    """`12`, `12_3`; None: it is no job's number."""
    head, _, task = text.partition("_")
    return JobRef(text) if head.isdigit() and (not task or task.isdigit()) and not text.endswith("_") else None
