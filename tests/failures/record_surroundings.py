"""Runs that met storage or a network that said no, or Slurm's word, and what triage has to say of them."""

from __future__ import annotations

from tests.failures.record_deeds import cancel, preempt, stop_rank
from tests.failures.record_expect import Expect
from tests.failures.record_scene import Scene
from tests.failures.record_words import EACH_NODE, EACH_TASK, LONG, everywhere

PORT_HOLDER = """python3 -c "import os, socket, time
s = socket.socket(); s.bind(('0.0.0.0', int(os.environ['PORT']))); s.listen(); time.sleep(25)" &
sleep 1"""
FULL_DISK = "mkdir -p {folder}/small; for rank in 1 3; do ln -s /dev/full {folder}/small/samples-$rank.bin; done"
READ_ONLY = "mkdir -p {folder}/small && mount -t tmpfs -o ro none {folder}/small; trap 'umount -l {folder}/small' EXIT"
UNKNOWN_NAME = "--local-addr=$SLURMD_NODENAME.cluster.invalid"
"""What the first torchrun tells the others: no node knows that name."""
WAITED = "Timed out waiting|timed out|waited"

STORAGE = (
    Scene(
        "disk-full",
        "resilient",
        "--fault=fill-disk --rank=1 --step=3 --out={folder}/small",
        Expect("STORAGE", "No space left", 1, "n1"),
        before=FULL_DISK,
    ),
    Scene(
        "disk-full-with-library",
        "resilient",
        "--library --fault=fill-disk --rank=3 --step=3 --out={folder}/small",
        Expect("STORAGE", "No space left", 3, "n2"),
        before=FULL_DISK,
    ),
    Scene(
        "disk-full-torchrun",
        "torchrun",
        "--fault=fill-disk --rank=3 --step=3 --out={folder}/small",
        Expect("STORAGE", "No space left", 3, "n2"),
        srun=EACH_NODE,
        before=FULL_DISK,
    ),
    Scene(
        "read-only",
        "torchrun",
        "--fault=unwritable --rank=2 --step=3 --out={folder}/small",
        Expect("STORAGE", "Read-only", 2, "n2"),
        before=READ_ONLY,
    ),
    Scene(
        "unwritable",
        "resilient",
        "--fault=unwritable --rank=0 --step=2 --out=/sys",
        Expect("CRASHED|STORAGE", "Permission denied", 0, "n1", "USELESS"),
    ),
    Scene(
        "unwritable-everywhere",
        "torchrun",
        "--fault=unwritable --rank=-1 --out=/sys",
        Expect("CRASHED|STORAGE", "Permission denied", retry="USELESS", everywhere=True),
        srun=EACH_NODE,
    ),
    Scene(
        "data-missing",
        "resilient",
        "--fault=missing-data --rank=-1",
        Expect("CRASHED|STORAGE", "No such file", everywhere=True),
    ),
    Scene(
        "data-missing-on-one-node",
        "torchrun",
        "--fault=missing-data --rank=3",
        Expect("CRASHED|STORAGE", "No such file", 3, "n2"),
        srun=EACH_NODE,
    ),
    Scene(
        "checkpoint-torn",
        "resilient",
        "--fault=torn-checkpoint --rank=1 --out={folder}",
        Expect("CRASHED|STORAGE", "PytorchStreamReader|zip archive", 1, "n1"),
    ),
)

NETWORK = (
    Scene(
        "interface-wrong",
        "resilient",
        "",
        everywhere("nosuch0|interface|device"),
        environment={"GLOO_SOCKET_IFNAME": "nosuch0"},
    ),
    Scene(
        "interface-wrong-torchrun",
        "torchrun",
        "",
        everywhere("nosuch0|interface|device"),
        srun=EACH_NODE,
        environment={"GLOO_SOCKET_IFNAME": "nosuch0"},
    ),
    Scene(
        "port-taken",
        "torchrun",
        "",
        Expect("CRASHED|LAUNCH_FAILED", "EADDRINUSE|address already in use|failed to listen", None, "n1"),
        before=PORT_HOLDER,
        srun=f"--kill-on-bad-exit=1 {EACH_NODE}",
    ),
    Scene(
        "port-taken-c10d",
        "c10d",
        "",
        Expect("CRASHED|LAUNCH_FAILED", "EADDRINUSE|address already in use|failed to listen", None, "n1"),
        before=PORT_HOLDER,
        srun=f"--kill-on-bad-exit=1 {EACH_NODE}",
    ),
    Scene(
        "name-unknown",
        "c10d",
        "",
        Expect("CRASHED|LAUNCH_FAILED|HUNG", "Name or service not known|gai error|resolve", None, "n1"),
        options=UNKNOWN_NAME,
        srun=f"--kill-on-bad-exit=1 {EACH_NODE}",
    ),
    Scene(
        "rank-never-joins",
        "torchrun",
        "--fault=sleep --rank=3 --timeout=8",
        Expect("HUNG", WAITED, 3, "n2"),
        srun=EACH_NODE,
    ),
)

HANGS = (
    Scene("hang", "resilient", "--fault=sleep --rank=2 --step=5 --timeout=8", Expect("HUNG", WAITED, 2, "n2")),
    Scene(
        "hang-with-library",
        "resilient",
        "--library --fault=sleep --rank=1 --step=5 --timeout=8",
        Expect("HUNG", WAITED, 1, "n1"),
    ),
    Scene(
        "hang-torchrun",
        "torchrun",
        "--fault=sleep --rank=2 --step=5 --timeout=8",
        Expect("HUNG", WAITED, 2, "n2"),
        srun=EACH_NODE,
    ),
    Scene(
        "stopped-rank", "torchrun", f"{LONG} --timeout=8", Expect("HUNG", WAITED, 3, "n2"), stop_rank(3), srun=EACH_NODE
    ),
    Scene(
        "stopped-rank-four-nodes",
        "resilient",
        f"{LONG} --timeout=8",
        Expect("HUNG", WAITED, 2, "n3"),
        stop_rank(2),
        nodes=4,
        ranks=1,
    ),
)

SLURM = (
    Scene("preempted", "resilient", f"{LONG} --library", Expect("PREEMPTED", "", None, None, "HELPS"), preempt),
    # Slurm 22.05 writes no reason into the output of a preempted job: only its record has it.
    Scene("preempted-torchrun", "torchrun", LONG, Expect("PREEMPTED|CANCELLED|UNKNOWN"), preempt),
    Scene("preempted-plain", "plain", LONG, Expect("PREEMPTED|CANCELLED|UNKNOWN"), preempt, srun=EACH_TASK),
    Scene("cancelled", "resilient", LONG, Expect("CANCELLED", "", None, None), cancel),
    Scene("cancelled-torchrun", "torchrun", LONG, Expect("CANCELLED", "", None, None), cancel),
    Scene(
        "time-limit",
        "resilient",
        f"{LONG} --step-seconds=1 --library",
        Expect("TIME_LIMIT", "", None, None),
        sbatch={"time": "1"},
    ),
    Scene(
        "time-limit-torchrun",
        "torchrun",
        f"{LONG} --step-seconds=1",
        Expect("TIME_LIMIT", "", None, None),
        sbatch={"time": "1"},
    ),
)
