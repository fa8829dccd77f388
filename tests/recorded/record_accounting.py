"""Record what accounting says of jobs that ended in every way: `python record_accounting.py FOLDER`, as root.

Every situation is a job on a node of its own, all at once; it takes about three minutes. The answers go to
FOLDER/SITUATION.sacct (when all was over) and FOLDER/SITUATION.MOMENT.sacct; each holds what ASK answered.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_resilience.command import Completed
from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from tests.recorded.database import Database
from tests.recorded.stage import CANCEL, OWNER, PREEMPT, REQUEUE, Situation, Stage, keep

COLUMNS = (
    "JobID JobIDRaw DBIndex State ExitCode DerivedExitCode Submit Eligible Start End ElapsedRaw TimelimitRaw Partition "
    "QOS UID NodeList Flags Reason"
).split()
NEWER_COLUMNS = ("Restarts", "FailedNode")
"""Asked where this sacct knows them."""
ASK = ("sacct", "--parsable2", "--duplicates", "--noheader", "--units=K", "--jobs={id}", "--format={columns}")

TWICE = 'if [ "${SLURM_RESTART_COUNT:-0}" -ge 2 ]; then sleep 5; else sleep 300; fi'
ONCE = 'if [ -n "$SLURM_RESTART_COUNT" ]; then sleep 1; else sleep 300; fi'
POLITE = f"trap 'exit 0' TERM; {ONCE.replace('sleep 300', '(srun sleep 300; exit 0)')}"
HOG = "python3 -c 'import time; kept = bytearray(400 << 20); time.sleep(60)'"

SITUATIONS = (
    Situation("completed", "srun true"),
    Situation("failed", "srun true; exit 3"),
    Situation("failed-by-signal", "kill -KILL $$"),
    Situation("failed-with-200", "exit 200"),
    Situation("step-failed", "srun sh -c 'exit 5'; exit 0"),
    Situation("running", deeds=(("RUNNING", keep("running")), ("RUNNING", CANCEL))),
    Situation("cancelled-by-user", deeds=(("RUNNING", (*OWNER, *CANCEL)),)),
    Situation("cancelled-by-root", deeds=(("RUNNING", CANCEL),)),
    Situation("time-limit", options=("--time=1",)),
    Situation(
        "preempted-requeued",
        ONCE,
        deeds=(("RUNNING#0", PREEMPT), ("PENDING#1", keep("pending")), ("RUNNING#1", keep("running"))),
    ),
    Situation("preempted-exits-0-in-grace", POLITE, deeds=(("RUNNING#0", PREEMPT),)),
    Situation("preempted-exits-7-in-grace", POLITE.replace("exit 0", "exit 7"), deeds=(("RUNNING#0", PREEMPT),)),
    Situation("preempted-by-cancel", ONCE, ("--partition=cancel",), (("RUNNING", PREEMPT),)),
    Situation("preempted-by-cancel-exits-0-in-grace", POLITE, ("--partition=cancel",), (("RUNNING", PREEMPT),)),
    Situation("preempted-no-requeue", ONCE, ("--no-requeue",), (("RUNNING", PREEMPT),)),
    Situation(
        "requeued-by-hand-twice",
        TWICE,
        deeds=(
            ("RUNNING#0", (*OWNER, *REQUEUE)),
            ("PENDING#1", keep("pending")),
            ("RUNNING#1", (*OWNER, *REQUEUE)),
            ("RUNNING#2", keep("running")),
        ),
    ),
    Situation("requeued-by-itself", '[ -n "$SLURM_RESTART_COUNT" ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }'),
    Situation("requeued-after-its-end", "exit 3", deeds=(("FAILED", REQUEUE),)),
    Situation(
        "requeued-and-held",
        ONCE,
        deeds=(("RUNNING", ("scontrol", "requeuehold", "{id}")), ("PENDING#1*", keep("held")), ("PENDING#1", CANCEL)),
    ),
    Situation("requeue-exit", '[ -n "$SLURM_RESTART_COUNT" ] || exit 85'),
    Situation("node-failure", ONCE, ("--no-requeue",), (("RUNNING", ("KILL-SLURMD",)),)),
    Situation(
        "node-failure-requeued",
        ONCE,
        deeds=(
            ("RUNNING#0", ("KILL-SLURMD",)),
            ("PENDING#1", keep("pending")),
            ("PENDING#1", ("START-SLURMD",)),
        ),
    ),
    Situation("out-of-memory", f"srun {HOG}", ("--mem=100",)),
    Situation("array", "[ $SLURM_ARRAY_TASK_ID = 0 ] || exit 4", ("--array=0-1",)),
    Situation(
        "array-element-requeued",
        ONCE,
        ("--array=0-1",),
        (("RUNNING", ("scontrol", "requeue", "{id}_1")), ("RUNNING#1*", CANCEL)),
    ),
    Situation("never-started", options=("--hold",), deeds=(("PENDING", (*OWNER, *CANCEL)),)),
    Situation("never-started-cancelled-by-root", options=("--hold",), deeds=(("PENDING", CANCEL),)),
    Situation("pending", options=("--hold",), deeds=(("PENDING", keep("pending")), ("PENDING", CANCEL))),
    Situation("dependency-never", options=("--kill-on-invalid-dep=yes",)),
    Situation("dependency-never-and-waits", deeds=(("PENDING", keep("pending")), ("PENDING", CANCEL))),
    Situation("deadline", options=("--hold", "--time=1", "--deadline=now+70seconds")),
    Situation(
        "suspended",
        "sleep 20",
        deeds=(
            ("RUNNING", ("scontrol", "suspend", "{id}")),
            ("SUSPENDED", keep("suspended")),
            ("SUSPENDED", ("scontrol", "resume", "{id}")),
        ),
    ),
)


OUT_OF_MEMORY = {
    "out-of-memory-in-step": f"srun {HOG}",
    "out-of-memory-in-step-and-goes-on": f"srun {HOG}; echo srun left with $?",
    "out-of-memory-in-batch-script": f"{HOG}; exit 0",
    "output-cannot-be-opened": "true",
}
"""Where a cgroup limits memory; what the job printed is kept as SITUATION.output."""


@dataclass(frozen=True)
class Asking:
    cluster: Cluster
    folder: Path
    columns: str

    def ask(self, job: str, *, duplicates: bool = True) -> Completed:
        words = (word for word in ASK if duplicates or word != "--duplicates")
        return self.cluster.run(*(word.format(id=job, columns=self.columns) for word in words), timeout_s=60)

    def keep(self, what: str, job: str) -> None:
        answer = self.ask(job)
        (self.folder / f"{what}.sacct").write_text(answer.out + answer.err)


def write_errors(asking: Asking, job: str, database: Database) -> None:
    """How silence and an unknown job look."""
    lines = []
    for what, asked in (("unknown job", "1"), ("no slurmdbd", job)):
        if what == "no slurmdbd":
            database.stop()
        started = time.monotonic()
        answer = asking.ask(asked)
        took_s = time.monotonic() - started
        lines.append(f"{what}: rc={answer.code} in {took_s:.0f} s; stdout {answer.out!r}; stderr {answer.err!r}")
    (asking.folder / "errors").write_text("\n".join(lines) + "\n")


def main(to: str) -> None:
    folder = Path(to).absolute()
    folder.mkdir(parents=True)
    folder.chmod(0o777)  # the jobs' owner writes here
    with Database() as database, tempfile.TemporaryDirectory(prefix="accounting-", dir="/tmp") as above:
        Path(above).chmod(0o755)
        spec = ClusterSpec(
            nodes=len(SITUATIONS),
            extra=(
                *database.cluster_lines(),
                "JobAcctGatherType=jobacct_gather/linux",
                "JobAcctGatherFrequency=task=2",
                "JobAcctGatherParams=OverMemoryKill",
                "SelectTypeParameters=CR_Core_Memory",
                "DefMemPerNode=1000",
                "RequeueExit=85",
                "PartitionName=cancel Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL GraceTime=15",
            ),
        )
        # An ordinary user's commands must be able to read slurm.conf.
        with Cluster(spec, folder=Path(above) / "cluster") as cluster:
            known = cluster.run("sacct", "--helpformat").out.split()
            columns = ",".join([*COLUMNS, *(name for name in NEWER_COLUMNS if name in known)])
            asking = Asking(cluster, folder, columns)
            failed = cluster.run("sbatch", "--parsable", "--wait", "-o", "/dev/null", "--wrap", "exit 1").out.strip()
            stage = Stage(cluster, folder, asking.keep)
            stage.play(tuple(dependent_on(failed, situation) for situation in SITUATIONS))
            for name, job in stage.jobs.items():
                asking.keep(name, job)
            for name in ("preempted-requeued", "requeued-by-hand-twice"):
                newest = asking.ask(stage.jobs[name], duplicates=False)
                (folder / f"{name}.without-duplicates.sacct").write_text(newest.out)
            json = cluster.run("sacct", "--json", "--duplicates", f"--jobs={stage.jobs['preempted-requeued']}")
            (folder / "preempted-requeued.sacct-json").write_text(json.out + json.err)
            (folder / "command").write_text(" ".join(ASK).format(id="JOB", columns=columns) + "\n")
            write_errors(asking, stage.jobs["completed"], database)
            stage.write_timelines()
    if isinstance(cgroup.probe(), cgroup.Usable):
        record_out_of_memory(folder, columns)
    folder.chmod(0o755)


def record_out_of_memory(folder: Path, columns: str) -> None:
    with Database() as database, tempfile.TemporaryDirectory(prefix="accounting-", dir="/tmp") as above:
        Path(above).chmod(0o755)
        lines = (*database.cluster_lines(), "TaskPlugin=task/cgroup", "SelectTypeParameters=CR_Core_Memory")
        spec = ClusterSpec(nodes=len(OUT_OF_MEMORY), proctrack="cgroup", extra=lines)
        with Cluster(spec, folder=Path(above) / "cluster") as cluster:
            with cluster.layout.cgroup_conf.open("a") as conf:
                conf.write("ConstrainRAMSpace=yes\n")
            for node in cluster.node_names:
                cluster.kill_slurmd(node)
                cluster.daemons.start_node(node)
            time.sleep(3)
            asking = Asking(cluster, folder, columns)
            stage = Stage(cluster, folder, asking.keep)
            stage.play([out_of_memory(folder, *pair) for pair in OUT_OF_MEMORY.items()])
            for name, job in stage.jobs.items():
                asking.keep(name, job)
            stage.write_timelines()


def out_of_memory(folder: Path, name: str, script: str) -> Situation:
    output = "/nowhere/output" if "cannot" in name else f"{folder}/{name}.output"
    return Situation(name, script, ("--mem=100", "-o", output))


def dependent_on(failed: str, situation: Situation) -> Situation:
    if not situation.name.startswith("dependency"):
        return situation
    return replace(situation, options=(*situation.options, f"--dependency=afterok:{failed}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
