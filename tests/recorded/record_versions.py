"""Record what differs between versions of Slurm: `python record_versions.py FOLDER`, as root. Five minutes.

Every situation is a job of an ordinary user on a node of its own. What happened goes to FOLDER/SITUATION.timeline,
what was answered at a moment to FOLDER/SITUATION.MOMENT.scontrol and .squeue.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from slurm_resilience.sandbox.find import find_slurm
from tests.recorded.batch_scripts import FORBID, SELF_REQUEUE, first_life, leaves, successor
from tests.recorded.stage import CANCEL, OWNER, PREEMPT, REQUEUE, Situation, Stage, keep

UPDATE = ("scontrol", "update", "JobId={id}")
PREEMPTED_ONCE = ("RUNNING#0", PREEMPT)
OVER = "PREEMPTED|COMPLETED"

IN_GRACE = (
    Situation("requeue-exits-0", leaves(0), deeds=(PREEMPTED_ONCE, ("RUNNING#1", CANCEL))),
    Situation("requeue-exits-7", leaves(7), deeds=(PREEMPTED_ONCE, ("RUNNING#1", CANCEL))),
    Situation("requeue-exits-85", leaves(85), deeds=(PREEMPTED_ONCE, ("RUNNING#1", CANCEL))),
    Situation("requeue-exits-0-no-requeue", leaves(0), ("--no-requeue",), (PREEMPTED_ONCE,)),
    Situation("requeue-exits-7-no-requeue", leaves(7), ("--no-requeue",), (PREEMPTED_ONCE,)),
    Situation(
        "requeue-forbids-and-exits-0",
        leaves(0, before=FORBID),
        deeds=(
            PREEMPTED_ONCE,
            (OVER, (*OWNER, *REQUEUE)),
            (OVER, (*OWNER, *UPDATE, "Requeue=1")),
            (OVER, (*OWNER, *REQUEUE)),
            ("RUNNING#1", CANCEL),
        ),
    ),
    Situation("cancel-exits-0", leaves(0), ("-p", "cancel"), (PREEMPTED_ONCE,)),
    Situation("cancel-exits-7", leaves(7), ("-p", "cancel"), (PREEMPTED_ONCE,)),
    Situation("cancel-exits-85", leaves(85), ("-p", "cancel"), (PREEMPTED_ONCE, ("RUNNING#1", CANCEL))),
    Situation(
        "cancel-requeues-itself",
        leaves(0, before=SELF_REQUEUE),
        ("-p", "cancel"),
        (PREEMPTED_ONCE, ("RUNNING#1", CANCEL)),
    ),
    Situation("cancel-stays", first_life("exit 0"), ("-p", "cancel"), (PREEMPTED_ONCE,)),
)
"""PARTITION'S MODE, and how the job left in its grace."""

FOUR = tuple((f"RUNNING#{life}", PREEMPT) for life in range(4))
HELD = "REQUEUE_HOLD"
HOLD = (
    Situation(
        "four-polite-exits",
        leaves(0),
        deeds=(
            *FOUR[:2],
            (f"{HELD}*", keep("held")),
            (HELD, (*OWNER, "scontrol", "release", "{id}")),
            (HELD, (*OWNER, *REQUEUE)),
            (HELD, (*OWNER, *UPDATE, "Priority=100")),
            (HELD, (*OWNER, *UPDATE, "StartTime=now")),
            (HELD, keep("still-held")),
            (HELD, ("scontrol", "release", "{id}")),
            ("RUNNING", keep("released-by-root")),
            FOUR[2],
            ("RUNNING#3", keep("after-release")),
            ("RUNNING#3", (*OWNER, *CANCEL)),
        ),
    ),
    Situation(
        "four-polite-exits-requeueing-themselves",
        leaves(0, before=SELF_REQUEUE),
        deeds=(*FOUR, ("RUNNING#4", keep("fifth-life")), ("RUNNING#4", CANCEL)),
    ),
    Situation(
        "four-preemptions-stays",
        "say starts; srun sleep 300; sleep 300",
        deeds=(*FOUR, ("RUNNING#4", keep("fifth-life")), ("RUNNING#4", CANCEL)),
    ),
)
"""With MaxBatchRequeue=2, where the version has it."""

AFTER_GRACE = (
    Situation(
        "second-life-exits-0",
        first_life("sleep 3; say exits 0; exit 0"),
        deeds=(PREEMPTED_ONCE, ("RUNNING#2", keep("third-life"))),
    ),
    Situation("second-life-exits-3", first_life("sleep 3; say exits 3; exit 3"), deeds=(PREEMPTED_ONCE,)),
    Situation(
        "second-life-cancelled",
        first_life("srun sleep 300; say exits 0; exit 0"),
        deeds=(PREEMPTED_ONCE, ("RUNNING#1", (*OWNER, *CANCEL))),
    ),
    Situation(
        "second-life-cancels-itself", first_life("sleep 3; scancel $SLURM_JOB_ID; sleep 60"), deeds=(PREEMPTED_ONCE,)
    ),
    Situation(
        "second-life-time-limit", first_life("srun sleep 300; say exits 0; exit 0"), ("-t", "1"), (PREEMPTED_ONCE,)
    ),
    Situation(
        "second-life-without-requeue-exits-0",
        first_life(f"sleep 4; {FORBID} say exits 0; exit 0"),
        deeds=(PREEMPTED_ONCE,),
    ),
    Situation(
        "second-life-requeues-itself",
        first_life(f"if [ $SLURM_RESTART_COUNT = 1 ]; then sleep 3; {SELF_REQUEUE} sleep 60; fi; sleep 3; say exits 0"),
        deeds=(PREEMPTED_ONCE,),
    ),
    Situation(
        "second-life-after-own-requeue-exits-0",
        first_life("sleep 3; say exits 0", first=f"srun sleep 300; {SELF_REQUEUE} say exits 0"),
        deeds=(PREEMPTED_ONCE,),
    ),
    Situation(
        "second-life-after-requeue-out-of-grace-exits-0",
        first_life("sleep 3; say exits 0", first=f"sleep 4; {SELF_REQUEUE} say exits 0"),
    ),
    Situation(
        "second-life-without-grace-exits-0", first_life("sleep 3; say exits 0"), ("-p", "no-grace"), (PREEMPTED_ONCE,)
    ),
)
"""The first life was preempted and stayed to the end of its grace (where the name says nothing else)."""


CHAIN = (
    Situation("chain-afterany", successor("afterany") + leaves(0), deeds=(PREEMPTED_ONCE, ("RUNNING#1", CANCEL))),
    Situation("chain-afterany-no-requeue", successor("afterany") + leaves(0), ("--no-requeue",), (PREEMPTED_ONCE,)),
    Situation("chain-afterok-no-requeue", successor("afterok") + leaves(0), ("--no-requeue",), (PREEMPTED_ONCE,)),
    Situation(
        "chain-afterany-stays", successor("afterany") + first_life("sleep 2; say exits 0"), deeds=(PREEMPTED_ONCE,)
    ),
)
"""Each queues a successor first; all leave with 0 in their grace but the last."""

VERBS = (
    Situation(
        "owner-forbids-requeue",
        leaves(0),
        deeds=(
            ("RUNNING", (*OWNER, *UPDATE, "Requeue=0")),
            ("RUNNING", keep("forbidden")),
            ("RUNNING", (*OWNER, *REQUEUE)),
            ("RUNNING", (*OWNER, *UPDATE, "Requeue=1")),
            ("RUNNING", keep("allowed")),
            ("RUNNING", (*OWNER, *REQUEUE)),
            ("RUNNING#1", CANCEL),
        ),
    ),
    Situation("no-requeue-exits-85", "sleep 5; say exits 85; exit 85", ("--no-requeue",), (("RUNNING#1", CANCEL),)),
    Situation("requeue-exit", 'sleep 2; say exits; [ -n "$SLURM_RESTART_COUNT" ] || exit 85'),
    Situation(
        "requeue-exit-hold",
        "sleep 2; say exits 86; exit 86",
        deeds=(
            ("SPECIAL_EXIT", keep("held")),
            ("SPECIAL_EXIT", (*OWNER, "scontrol", "release", "{id}")),
            ("RUNNING", CANCEL),
        ),
    ),
    Situation(
        "suspended-then-requeued",
        leaves(0),
        deeds=(
            ("RUNNING", ("scontrol", "suspend", "{id}")),
            ("SUSPENDED", (*OWNER, *REQUEUE)),
            ("PENDING#1*", keep("requeued")),
            ("PENDING#1", (*OWNER, "scontrol", "release", "{id}")),
            ("PENDING#1", CANCEL),
        ),
    ),
    Situation(
        "requeued-and-held",
        leaves(0),
        deeds=(
            ("RUNNING", (*OWNER, "scontrol", "requeuehold", "{id}")),
            ("PENDING#1*", keep("held")),
            ("PENDING#1", (*OWNER, *REQUEUE)),
            ("PENDING#1", (*OWNER, "scontrol", "release", "{id}")),
            ("RUNNING#1", CANCEL),
        ),
    ),
    Situation(
        "held-by-root",
        leaves(0),
        ("--hold",),
        deeds=(
            ("PENDING", ("scontrol", "hold", "{id}")),
            ("PENDING", keep("held")),
            ("PENDING", (*OWNER, "scontrol", "release", "{id}")),
            ("PENDING", CANCEL),
        ),
    ),
    Situation(
        "batch-only",
        "say starts; trap 'say TERM' TERM; while [ -z \"$SLURM_RESTART_COUNT\" ]; do sleep 0.2; done",
        deeds=(PREEMPTED_ONCE,),
    ),
    Situation(
        "node-lost",
        "say starts; sleep 40",
        deeds=(
            ("RUNNING", ("KILL-SLURMD",)),
            ("PENDING#1", keep("lost")),
            ("PENDING#1", ("START-SLURMD",)),
            ("RUNNING#1", CANCEL),
        ),
    ),
)

SLOW = (
    Situation(
        "owner-starts-now",
        leaves(0),
        deeds=(
            ("RUNNING", (*OWNER, *REQUEUE)),
            ("PENDING#1", keep("delayed")),
            ("PENDING#1", (*OWNER, *UPDATE, "StartTime=now")),
            ("RUNNING#1", CANCEL),
        ),
    ),
    Situation("nobody-starts-now", leaves(0), deeds=(("RUNNING", (*OWNER, *REQUEUE)), ("RUNNING#1", CANCEL))),
    Situation(
        "preempted-by-suspension",
        'say starts; for name in TERM CONT TSTP; do trap "say $name" $name; done; '
        "for i in {1..100}; do sleep 0.2; done; say exits 0",
        ("-p", "suspend"),
        (("RUNNING", PREEMPT), ("SUSPENDED", keep("suspended"))),
    ),
)
"""cred_expire=60; PreemptMode=SUSPEND,GANG."""

SQUEUE = "State:30,StateCompact:10,Reason:80,RestartCnt:10,Requeue:10,PriorityLong:20,exit_code:20,PreemptTime:30"


def play(situations: Sequence[Situation], folder: Path, *extra: str, cred_expire_s: int = 5) -> None:
    with tempfile.TemporaryDirectory(prefix="versions-", dir="/tmp") as above:
        Path(above).chmod(0o755)
        spec = ClusterSpec(nodes=len(situations), cred_expire_s=cred_expire_s, extra=extra)
        # An ordinary user's commands must be able to read slurm.conf.
        with Cluster(spec, folder=Path(above) / "cluster") as cluster:

            def ask(what: str, job: str) -> None:
                show = cluster.run("scontrol", "-o", "show", "job", job)
                (folder / f"{what}.scontrol").write_text(show.out + show.err)
                queue = cluster.run("squeue", "-h", "-t", "all", "-j", job, f"--Format={SQUEUE}")
                (folder / f"{what}.squeue").write_text(queue.out + queue.err)

            stage = Stage(cluster, folder, ask)
            stage.play(situations)
            stage.write_timelines()


def main(to: str) -> None:
    folder = Path(to).absolute()
    folder.mkdir(parents=True)
    folder.chmod(0o777)  # the jobs' owner writes here
    limit = ("MaxBatchRequeue=2",) if find_slurm().version >= (23, 2) else ()
    play(
        (*IN_GRACE, *HOLD, *AFTER_GRACE, *CHAIN, *VERBS),
        folder,
        *limit,
        "RequeueExit=85",
        "RequeueExitHold=86",
        "PartitionName=cancel Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL GraceTime=15",
        "PartitionName=no-grace Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=0",
    )
    play(
        SLOW,
        folder,
        "PreemptMode=SUSPEND,GANG",
        "PartitionName=suspend Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=SUSPEND",
        cred_expire_s=60,
    )
    folder.chmod(0o755)


if __name__ == "__main__":
    main(*sys.argv[1:])
