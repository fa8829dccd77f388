"""Record how Slurm's commands answer, and which of them know JSON: `python record_answers.py FOLDER`, as root.

One file a question, named as in QUESTIONS, with what was written to stdout, then to stderr; FOLDER/questions says which
command it was and what it left with.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from tests.recorded.stage import OWNER

FIELDS = (
    "StateCompact:20,State:40,Reason:120,RestartCnt:20,Requeue:20,BatchFlag:20,StartTime:30,EndTime:30,PreemptTime:30,"
    "Partition:80,PriorityLong:20,exit_code:20,BatchHost:120,NodeList:200,QOS:40,Dependency:80,UserID:20,ArrayJobID:20,"
    "ArrayTaskID:20,JobArrayID:20,JobID:20,TimeLimit:20,NumNodes:20,NumTasks:20,cpus-per-task:20,MinMemory:20,"
    "ReqNodes:80,ExcNodes:80,Feature:40,Licenses:40,Reservation:40,OverSubscribe:20,tres-per-node:40,Comment:80,Name:40"
)
SQUEUE = ("squeue", "--noheader", "--states=all", "--array", "--jobs={all}", f"--Format={FIELDS}")

QUESTIONS: dict[str, tuple[str, ...]] = {
    "squeue-columns": SQUEUE,
    "squeue.json": ("squeue", "--json", "--states=all", "--jobs={running}"),
    "squeue-array.json": ("squeue", "--json", "--states=all", "--jobs={array}"),
    "squeue-json-list": ("squeue", "--json=list"),
    "squeue-pinned.json": ("squeue", "--json=v0.0.40", "--jobs={running}"),
    "squeue-json-of-another-release": ("squeue", "--json=v0.0.99", "--jobs={running}"),
    "squeue-unknown-job.json": ("squeue", "--json", "--jobs=1"),
    "scontrol-job": ("scontrol", "-o", "show", "job", "{running}"),
    "scontrol-job-pending": ("scontrol", "-o", "show", "job", "{pending}"),
    "scontrol-job-array": ("scontrol", "-o", "show", "job", "{array}"),
    "scontrol-job-details": ("scontrol", "-o", "-dd", "show", "job", "{running}"),
    "scontrol-job.json": ("scontrol", "--json", "show", "job", "{pending}"),
    "scontrol-job-ended.json": ("scontrol", "--json", "show", "job", "{ended}"),
    "scontrol-config": ("scontrol", "show", "config"),
    "scontrol-config.json": ("scontrol", "--json", "show", "config"),
    "scontrol-partition": ("scontrol", "-o", "show", "partition", "low"),
    "scontrol-partition.json": ("scontrol", "--json", "show", "partition", "low"),
    "scontrol-node": ("scontrol", "-o", "show", "node"),
    "scontrol-node.json": ("scontrol", "--json", "show", "node", "{node}"),
    "scontrol-ping": ("scontrol", "ping"),
    "scontrol-ping.json": ("scontrol", "--json", "ping"),
    "scontrol-batch-script": ("scontrol", "write", "batch_script", "{running}", "-"),
    "scontrol-batch-script-array": ("scontrol", "write", "batch_script", "{array}_1", "-"),
    "sinfo-nodes": ("sinfo", "--noheader", "--Node", "--Format=NodeList:80,StateLong:40,StateComplete:80,Reason:200"),
    "sinfo.json": ("sinfo", "--json", "--nodes={node}"),
    "sacct-without-accounting": ("sacct", "-P", "-D", "-j", "{running}"),
    "sacctmgr-without-accounting": ("sacctmgr", "-nP", "show", "qos"),
    "sbatch-refused": ("sbatch", "--partition=nowhere", "--wrap=true"),
    "sbatch-test-only": ("sbatch", "--test-only", "--nodes=99", "--wrap=true"),
    "version": ("squeue", "--version"),
}


def main(to: str) -> None:
    folder = Path(to).absolute()
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="answers-", dir="/tmp") as above:
        Path(above).chmod(0o755)
        with Cluster(ClusterSpec(nodes=2), folder=Path(above) / "cluster") as cluster:
            names = queue_jobs(cluster)
            asked = []
            for what, question in QUESTIONS.items():
                argv = [word.format(**names) for word in question]
                answer = cluster.run(*argv, timeout_s=60)
                (folder / what).write_text(answer.out + answer.err)
                asked.append(f"{what}: rc={answer.code} {' '.join(argv)}")
            (folder / "questions").write_text("\n".join(asked) + "\n")


def queue_jobs(cluster: Cluster) -> dict[str, str]:
    def submit(*options: str, script: str = "sleep 300") -> str:
        argv = (*OWNER, "sbatch", "--parsable", "-o", "/tmp/%x-%j.out", "--chdir=/tmp", *options, "--wrap", script)
        return cluster.run(*argv).out.strip()

    ended = submit("--job-name=ended", script="exit 3")
    running = submit(
        "--job-name=a job JobState=FAILED Restarts=99", "--comment=token=abc Requeue=0", "--nodes=2", "--ntasks=4",
        "--cpus-per-task=2", "--mem=100M", "--time=1:00:00", "--time-min=30", "--signal=B:USR1@60",
        "--open-mode=append",
        "--error=/tmp/%x-%j.err", "--requeue", "--mail-type=FAIL", "--nice=3", "--wckey=key",
    )  # fmt: skip
    array = submit("--array=0-2%2", "--job-name=array", "--mem=100M", "--output=/tmp/%A_%a.out")
    pending = submit(f"--dependency=afterany:{running}", "--exclude=" + cluster.node_names[1], "--mem-per-cpu=50M")
    wait_s = time.monotonic() + 30
    while len(cluster.run("squeue", "-h", "-t", "R", "-o", "%i").out.split()) < 3 and time.monotonic() < wait_s:
        time.sleep(0.2)
    names = {"ended": ended, "running": running, "array": array, "pending": pending, "node": cluster.node_names[0]}
    return {**names, "all": f"{ended},{running},{array},{pending}"}


if __name__ == "__main__":
    main(*sys.argv[1:])
