"""Record what a real Slurm answers while a job is preempted, cancelled, requeued ...: `python record.py cgroup FOLDER`.

Every situation is a job on a node of its own, all at once; it takes about three minutes. The answers go to
FOLDER/SITUATION.MOMENT.COMMAND, what happened when to FOLDER/SITUATION.timeline.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec

SQUEUE = ("squeue", "-h", "-t", "all", "-o", "%A|%F|%K|%T|%r")
WATCHED = (
    "JobState Reason Restarts ExitCode StartTime EndTime PreemptTime PreemptEligibleTime Requeue NodeList "
    "EligibleTime SuspendTime"
).split()

BATCH = r"""#!/bin/bash
cd "$FOLDER"
say() { echo "$(date +%s.%N) batch#${SLURM_RESTART_COUNT:-0} $*" >> $NAME.events; }
ask() { scontrol -o show job $ID > $NAME.$1.scontrol 2>&1; say "scontrol left with $?"
        squeue -h -t all -j $ID -o '%A|%F|%K|%T|%r' > $NAME.$1.squeue 2>&1; }
requeue() { said=$(scontrol requeue $ID 2>&1); say "requeue left with $?, said: $said"; }
ID=$SLURM_JOB_ID
[ -n "$SLURM_ARRAY_JOB_ID" ] && ID=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID && NAME=$NAME$SLURM_ARRAY_TASK_ID
export NAME
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then say "runs again"; ask again; sleep 2; exit 0; fi
terms=0
on_term() {
  terms=$((terms + 1)); say "TERM $terms"
  [ -z "$handled" ] || return
  handled=yes
  ask inside-term
  case $ACT in *requeue-after-term*) sleep 2; requeue; ask inside-requeued;; esac
  (sleep 5; ask inside-term-5s) & later=$!
}
trap on_term TERM
trap 'say CONT' CONT
case $ACT in
  exit*) sleep 2; say "exits ${ACT#exit}"; exit ${ACT#exit};;
esac
[ "$ACT" = late-step ] && sleep 9
srun bash task.sh 2>> $NAME.srun-stderr & srun=$!
say "srun started"
case $ACT in
  requeue-running*) sleep 3; requeue; ask inside-requeued;;
  requeue-twice) sleep 3; requeue; requeue; ask inside-requeued;;
esac
while kill -0 $srun 2>/dev/null; do wait $srun; code=$?; done
say "srun left with $code"
ask inside-srun-ended
case $ACT in *requeue-after-srun*) requeue; ask inside-requeued;; esac
[ -n "$later" ] && while kill -0 $later 2>/dev/null; do wait $later; done
case $ACT in *linger*) end=$((SECONDS + 300)); while [ $SECONDS -lt $end ]; do sleep 1; done;; esac
case $ACT in *exit-75*) say "exits 75"; exit 75;; esac
say "exits 0"
exit 0
"""

TASK = r"""
say() { echo "$(date +%s.%N) task $*" >> $NAME.events; }
ask() { scontrol -o show job $SLURM_JOB_ID > $NAME.$1.scontrol 2>&1
        squeue -h -t all -j $SLURM_JOB_ID -o '%A|%F|%K|%T|%r' > $NAME.$1.squeue 2>&1; }
terms=0; end=
on_term() {
  # The next TERM may interrupt this handler at any line.
  [ -n "$end" ] || end=$((SECONDS + TASK_S)); terms=$((terms + 1)); say "TERM $terms"
  [ -e $NAME.task-term.squeue ] || ask task-term
}
trap on_term TERM
trap 'say CONT' CONT
say started
while [ -z "$end" ] || [ $SECONDS -lt $end ]; do sleep 0.2; done
say "exits 0"
"""


@dataclass(frozen=True)
class Situation:
    name: str
    act: str = "nothing"
    """What the batch script does besides waiting for its step."""
    task_s: int = 4
    """How long the task runs on after its first TERM."""
    options: tuple[str, ...] = ()
    outside: tuple[tuple[float, tuple[str, ...]], ...] = ()
    """What is done to it from outside: the command, and how many seconds after the job has started; not before its
    step has."""
    after_end: tuple[tuple[str, ...], ...] = ()
    """Commands once it has ended."""


PREEMPT = (
    *("sbatch", "-p", "high", "-w", "{node}", "-N1", "--exclusive", "-J", "preemptor"),
    *("-o", "/dev/null", "--wrap", "sleep 1"),
)
REQUEUE = ("scontrol", "requeue", "{id}")
CANCEL = ("scancel", "{id}")

SITUATIONS = (
    Situation("preempted-stays", "linger", 300, outside=((4, PREEMPT),)),
    Situation("preempted-exits-in-grace", outside=((4, PREEMPT),)),
    Situation("preempted-requeues-in-grace", "requeue-after-srun", outside=((4, PREEMPT),)),
    Situation("preempted-requeues-after-term", "requeue-after-term-linger", 300, outside=((4, PREEMPT),)),
    Situation("preempted-cancelled-in-grace", "linger", 300, outside=((4, PREEMPT), (8, CANCEL))),
    Situation("preempted-then-ends-and-lingers", "linger", 4, outside=((4, PREEMPT),)),
    Situation("timeout", task_s=6, options=("-t", "1"), after_end=(REQUEUE,)),
    Situation("timeout-requeues-after-term", "requeue-after-term", 6, options=("-t", "1")),
    Situation("cancelled", task_s=6, outside=((4, CANCEL),), after_end=(REQUEUE,)),
    Situation("cancelled-requeues-after-term", "requeue-after-term", 6, outside=((4, CANCEL),)),
    Situation("requeued-by-hand", task_s=6, outside=((4, REQUEUE),)),
    Situation("requeued-by-hand-requeues-after-term", "requeue-after-term", 6, outside=((4, REQUEUE),)),
    Situation("requeued-by-hand-twice", task_s=6, outside=((4, REQUEUE), (5, REQUEUE), (13, REQUEUE), (14, REQUEUE))),
    Situation("slurmd-killed", task_s=6, outside=((4, ("KILL-SLURMD", "{node}")),)),
    Situation("exit-3", "exit3", after_end=(REQUEUE, REQUEUE)),
    Situation("exit-0", "exit0", after_end=(REQUEUE,)),
    Situation("requeues-while-running", "requeue-running"),
    Situation("requeues-twice-while-running", "requeue-twice"),
    Situation("requeues-while-running-and-exits-75", "requeue-running-exit-75"),
    Situation("preempted-without-grace", task_s=6, options=("-p", "no-grace"), outside=((4, PREEMPT),)),
    Situation("preempted-before-the-step-starts", "late-step", outside=((3, PREEMPT),)),
    Situation("preempted-no-requeue", "linger", 300, options=("--no-requeue",), outside=((4, PREEMPT),)),
    Situation("no-requeue-requeues-while-running", "requeue-running", options=("--no-requeue",)),
    Situation("slurmd-killed-of-second-node", task_s=6, outside=((4, ("KILL-SLURMD", "{spare}")),)),
    Situation("array-", "requeue-running", options=("-a", "0-1")),
)


@dataclass
class Recorder:
    cluster: Cluster
    folder: Path
    jobs: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, name: str, text: str) -> None:
        with self.lock, (self.folder / f"{name}.events").open("a") as file:
            file.write(f"{time.time():.9f} outside {text}\n")

    def keep(self, name: str, moment: str, job: str) -> None:
        show = self.cluster.run("scontrol", "-o", "show", "job", job)
        (self.folder / f"{name}.{moment}.scontrol").write_text(show.out + show.err)
        queue = self.cluster.run(*SQUEUE, "-j", job)
        (self.folder / f"{name}.{moment}.squeue").write_text(queue.out + queue.err)

    def watch(self, stop: threading.Event) -> None:
        seen: dict[str, dict[str, str]] = {}
        while not stop.wait(0.4):
            for line in self.cluster.run("scontrol", "-o", "show", "jobs").out.splitlines():
                found = dict(re.findall(r"(\S+?)=(\S*)", line))
                job = found.get("JobId", "")
                name = self.jobs.get(found.get("ArrayJobId", job))
                if name is None:
                    continue
                name += found.get("ArrayTaskId", "")
                before = seen.get(job, {})
                changed = {key: found.get(key, "-") for key in WATCHED if found.get(key) != before.get(key)}
                if changed:
                    self.note(name, " ".join(f"{key}={value}" for key, value in changed.items()))
                    state = found["JobState"]
                    if state != before.get("JobState"):
                        (self.folder / f"{name}.outside-{state}-restarts{found['Restarts']}.scontrol").write_text(line)
                seen[job] = found

    def play(self, situation: Situation, node: str) -> None:
        name = situation.name
        nodes = ("-N2", "-w", f"{node},{self.cluster.node_names[-1]}") if "second" in name else ("-w", node)
        env = {"NAME": name, "FOLDER": str(self.folder), "ACT": situation.act, "TASK_S": str(situation.task_s)}
        answer = self.cluster.run(
            "sbatch", "--parsable", "-J", name, *nodes, "-o", str(self.folder / f"{name}.output"), "--open-mode=append",
            *situation.options, str(self.folder / "batch.sh"),
            env=env,
        )  # fmt: skip
        job = answer.out.strip()
        self.jobs[job] = name
        while self.cluster.run("squeue", "-h", "-j", job, "-o", "%T").out.split()[:1] == ["PENDING"]:
            time.sleep(0.1)
        start = time.monotonic()
        events = self.folder / f"{name}.events"
        if situation.outside:
            events.touch()
        while situation.outside and situation.act != "late-step" and "task started" not in events.read_text():
            time.sleep(0.1)
        for at_s, argv in situation.outside:
            time.sleep(max(0.0, start + at_s - time.monotonic()))
            self.do(name, argv, job, node)
        if not situation.after_end:
            return
        while self.cluster.run("squeue", "-h", "-j", job, "-o", "%T").out.strip():
            time.sleep(0.2)
        self.keep(name, "ended", job)
        for argv in situation.after_end:
            self.do(name, argv, job, node)

    def do(self, name: str, argv: tuple[str, ...], job: str, node: str) -> None:
        argv = tuple(word.format(id=job, node=node, spare=self.cluster.node_names[-1]) for word in argv)
        if argv[0] == "KILL-SLURMD":
            self.cluster.kill_slurmd(argv[1])
            self.note(name, f"slurmd of {argv[1]} killed")
            return
        started = time.monotonic()
        answer = self.cluster.run(*argv, timeout_s=60)
        said = " ".join((answer.out + answer.err).split())
        self.note(name, f"{' '.join(argv)}: rc={answer.code} {said} (took {time.monotonic() - started:.1f} s)")


def main(proctrack: str, to: str) -> None:
    folder = Path(to).absolute()
    folder.mkdir(parents=True)
    (folder / "batch.sh").write_text(BATCH)
    (folder / "task.sh").write_text(TASK)
    spec = ClusterSpec(
        nodes=len(SITUATIONS) + 1,
        proctrack="cgroup" if proctrack == "cgroup" else "linuxproc",
        extra=("PartitionName=no-grace Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=0",),
    )
    with Cluster(spec) as cluster:
        recorder = Recorder(cluster, folder)
        stop = threading.Event()
        watcher = threading.Thread(target=recorder.watch, args=(stop,))
        watcher.start()
        players = [
            threading.Thread(target=recorder.play, args=pair)
            for pair in zip(SITUATIONS, cluster.node_names, strict=False)
        ]
        for player in players:
            player.start()
        for player in players:
            player.join()
        time.sleep(25)
        stop.set()
        watcher.join()
        for job, name in recorder.jobs.items():
            recorder.keep(name, "at-last", job)
        for argv in (REQUEUE, CANCEL, ("squeue", "-h", "-j", "{id}"), ("scontrol", "-o", "show", "job", "{id}")):
            recorder.do("unknown-job", argv, "1", "")
        cluster.stop_controller()
        for argv in (REQUEUE, CANCEL, ("squeue", "-h", "-j", "{id}"), ("scontrol", "-o", "show", "job", "{id}")):
            recorder.do("controller-down", argv, next(iter(recorder.jobs)), "")
    (folder / "batch.sh").unlink()
    (folder / "task.sh").unlink()
    for events in folder.glob("*.events"):
        lines = sorted(events.read_text().splitlines(), key=lambda line: float(line.split()[0]))
        first = float(lines[0].split()[0])
        timeline = (f"{float(line.split()[0]) - first:7.2f} {line.partition(' ')[2]}" for line in lines)
        events.with_suffix(".timeline").write_text("\n".join(timeline) + "\n")
        events.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
