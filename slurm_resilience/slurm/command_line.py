"""Slurm by its commands: works on every version, from every account.

Answers are read from columns of a known width (answers/), and nothing is searched for in free text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from slurm_resilience.command import run
from slurm_resilience.errors import SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.answers import (
    accounting,
    columns,
    configuration,
    json_jobs,
    nodes,
    partitions,
    request,
    wide_columns,
)
from slurm_resilience.slurm.answers.node_list import united
from slurm_resilience.slurm.client import (
    JobRecord,
    JobRef,
    JobState,
    NodeRecord,
    PartitionRecord,
    PastLife,
    QosRecord,
    SlurmConfiguration,
    Submission,
)
from slurm_resilience.slurm.commands import NOT_KNOWN, Commands, Runner, failure, own_environment

_SOON = "now+5seconds"
"""Not now: a credential of the second in which slurmd was told to end the job is revoked too, and the job that comes
with it fails for good (measured on 24.11.5: `Killing non-startable batch JobId: Job credential revoked`)."""


class CommandLineSlurm:
    """A SlurmClient (see client.py) by squeue, scontrol, scancel, sbatch, sinfo, sacct and sacctmgr."""

    def __init__(
        self, *, environment: Mapping[str, str] | None = None, timeout_s: float = 25.0, runner: Runner = run
    ) -> None:
        inherited = os.environ if environment is None else environment
        self._commands = Commands(own_environment(inherited), timeout_s, runner)

    def job(self, job: JobRef) -> JobRecord | None:
        records = self._records(["--jobs", job])
        if not records:
            return None
        named = [record for record in records if record.job == job]
        if len(named) != 1:
            raise SlurmUnparsable(f"job {job} is not one job, but {len(records)}: {records[0].job} is the first")
        return self._with_its_end(named[0])

    def my_jobs(self) -> tuple[JobRecord, ...]:
        return self._records(["--me"])

    def lives(self, job: JobRef) -> tuple[PastLife, ...] | None:
        if not self.configuration().accounting:
            return None
        argv = ["sacct", "--noheader", "--parsable2", "--duplicates", "--allocations", "--jobs", job]
        done = self._commands.ask([*argv, f"--format={accounting.FORMAT}"], fine=NOT_KNOWN)
        return accounting.read_lives(job, done.out)

    def configuration(self) -> SlurmConfiguration:
        return configuration.read_configuration(self._commands.ask(["scontrol", "show", "config"]).out)

    def partition(self, name: str) -> PartitionRecord:
        argv = ["scontrol", "--oneliner", "show", "partition", name]
        return partitions.read_partition(name, self._commands.ask(argv).out)

    def qos(self, name: str) -> QosRecord | None:
        if not self.configuration().accounting:
            return None
        argv = ["sacctmgr", "--noheader", "--parsable2", "show", "qos", name, f"format={accounting.QOS_FORMAT}"]
        return accounting.read_qos(name, self._commands.ask(argv).out)

    def nodes(self, names: str) -> tuple[NodeRecord, ...]:
        argv = ["sinfo", "--noheader", "--Node", "--all", "--nodes", names, "--Format", nodes.FORMAT]
        return nodes.read_nodes(self._commands.ask(argv).out)

    def answers(self) -> bool:
        try:
            done = self._commands.ask(["scontrol", "ping"])
        except (SlurmUnavailable, SlurmRejected):
            return False
        return " is UP" in done.out

    def requeue(self, job: JobRef) -> None:
        self._commands.ask(["scontrol", "requeue", job])

    def requeue_hold(self, job: JobRef) -> None:
        self._commands.ask(["scontrol", "requeuehold", job])

    def cancel(self, job: JobRef) -> None:
        self._commands.ask(["scancel", job])

    def signal(self, job: JobRef, name: str, *, to: str) -> None:
        # scancel asks again for half a minute where a job doesn't run yet.
        record = self.job(job)
        if record is None or record.state is not JobState.RUNNING:
            is_it = "not known" if record is None else record.state.value
            raise SlurmRejected(f"job {job} runs no step that a signal could be sent to: it is {is_it}")
        whom: list[str]
        match to:
            case "steps":
                whom = [job]
            case "batch":
                whom = ["--batch", job]
            case step if step.isdigit():
                whom = [f"{job}.{step}"]
            case _:
                raise ValueError(f"a signal goes to steps, to batch or to the number of a step, not to {to!r}")
        self._commands.ask(["scancel", f"--signal={name}", *whom])

    def exclude_nodes(self, job: JobRef, nodes: Collection[str]) -> None:
        record = self.job(job)
        # One that was queued again while it ran waits, too, although it is listed as completing until that is over.
        if record is None or not (record.state is JobState.PENDING or record.completing):
            raise SlurmRejected(f"job {job} does not wait: what nodes it gets can't be changed")
        self._update(job, "ExcNodeList", united([self._excluded(job), *nodes]))

    def start_now(self, job: JobRef) -> None:
        self._update(job, "StartTime", _SOON)

    def depend_on(self, job: JobRef, dependency: str) -> None:
        self._update(job, "Dependency", dependency)

    def may_requeue(self, job: JobRef, allowed: bool) -> None:
        self._update(job, "Requeue", str(int(allowed)))

    def batch_script(self, job: JobRef) -> str:
        done = self._commands.ask(["scontrol", "write", "batch_script", job, "-"], any_bytes=True)
        if not done.out:  # it leaves with 0 when it has none
            raise failure(done)
        return done.out

    def asked_for(self, job: JobRef) -> tuple[str, ...]:
        one = ["squeue", "--noheader", "--states=all", "--array", "--jobs", job]
        return request.read_request(
            job,
            columns=self._squeue([*one, "--Format", wide_columns.FORMAT], may_be_unknown=False),
            excluded=self._excluded(job),
            shown=self._commands.ask(["scontrol", "show", "job", job]).out,
            script=self.batch_script(job),
        )

    def submit(self, submission: Submission) -> JobRef:
        argv = ["sbatch", "--parsable", *submission.options]
        done = self._commands.ask(argv, env=submission.environment, given=submission.script, any_bytes=True)
        found = re.fullmatch(r"(\d+)(?:;\S*)?", done.out.strip())
        if found is None:
            raise SlurmUnparsable(f"sbatch names no job in its answer: {done.out.strip()[:200]!r}")
        tasks = [option.removeprefix("--array=") for option in submission.options if option.startswith("--array=")]
        return JobRef(f"{found[1]}_{tasks[-1]}" if tasks and tasks[-1].isdigit() else found[1])

    def _records(self, which: list[str]) -> tuple[JobRecord, ...]:
        argv = ["squeue", "--noheader", "--states=all", "--array", *which, "--Format", columns.FORMAT]
        try:
            return columns.read_records(self._squeue(argv))
        except SlurmUnparsable as error:
            return self._records_by_json(which, error)

    def _with_its_end(self, record: JobRecord) -> JobRecord:
        """24.11's columns show no end of a job without a time limit, not even while its grace runs out; JSON does."""
        if record.state is not JobState.RUNNING or record.preempted_s is None or record.end_s is not None:
            return record
        try:
            told = self._records_by_json(
                ["--jobs", record.job], SlurmUnparsable(f"no end of job {record.job} is shown")
            )
        except SlurmUnparsable:
            return record
        return replace(record, end_s=next((one.end_s for one in told if one.job == record.job), None))

    def _records_by_json(self, which: list[str], unparsable: SlurmUnparsable) -> tuple[JobRecord, ...]:
        """What the columns could not carry. `unparsable` is raised where Slurm was built without JSON."""
        option = json_jobs.schema_option(self.configuration().release)
        try:
            answer = self._squeue(["squeue", option, "--states=all", *which])
        except SlurmRejected as error:
            raise SlurmUnparsable(f"{unparsable}; and in JSON: {error}") from error
        listed = json_jobs.read_jobs(answer) if answer.strip() else ()
        return tuple(one.record for one in listed if "--me" not in which or one.user_id == _me())

    def _excluded(self, job: JobRef) -> str:
        """The nodes that it must not get, as Slurm writes them: no user can write anything else there."""
        one = ["squeue", "--noheader", "--states=all", "--array", "--jobs", job]
        return self._squeue([*one, "--format=%x"], may_be_unknown=False).strip()

    def _squeue(self, argv: list[str], *, may_be_unknown: bool = True) -> str:
        done = self._commands.ask(argv, fine=NOT_KNOWN if may_be_unknown else ())
        if "invalid job format" in done.err.lower():  # it leaves that column out, and moves the others
            raise SlurmUnparsable(f"squeue does not know a column: {done.err.strip().splitlines()[-1]}")
        return done.out

    def _update(self, job: JobRef, name: str, value: str) -> None:
        self._commands.ask(["scontrol", "update", f"JobId={job}", f"{name}={value}"])


def _me() -> int:
    return os.getuid()
