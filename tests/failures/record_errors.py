"""Runs that met an error of the program, and what triage has to say of them."""

from __future__ import annotations

from tests.failures.record_deeds import crash_and_wait, preempt_and_wait
from tests.failures.record_expect import Expect
from tests.failures.record_scene import Scene
from tests.failures.record_words import EACH_NODE, EACH_TASK, LONG, crash, everywhere

OLD_LIBRARY = "mkdir -p {folder}/lib; echo '__version__ = \"1.4\"' > {folder}/lib/fused_ops.py"
BUG = "IndexError: list index out of range"
SHAPE = "op.preamble.length <= op.nbytes|collective mismatch"

BUGS = (
    Scene("bug-on-one-rank", "resilient", "--fault=index-error --rank=3 --step=5", crash(BUG, 3, "n2")),
    Scene(
        "bug-on-one-rank-with-library",
        "resilient",
        "--library --fault=index-error --rank=2 --step=5",
        crash(BUG, 2, "n2"),
    ),
    Scene("bug-on-one-rank-torchrun", "torchrun", "--fault=index-error --rank=3 --step=5", crash(BUG, 3, "n2")),
    Scene(
        "bug-on-one-rank-each-node",
        "torchrun",
        "--fault=index-error --rank=2 --step=5",
        crash(BUG, 2, "n2"),
        srun=EACH_NODE,
    ),
    Scene(
        "bug-on-one-rank-labelled",
        "torchrun",
        "--fault=index-error --rank=2 --step=5",
        crash(BUG, 2, "n2"),
        srun="--label",
    ),
    Scene("bug-on-one-rank-c10d", "c10d", "--fault=index-error --rank=3 --step=5", crash(BUG, 3, "n2"), srun=EACH_TASK),
    Scene(
        "bug-on-one-rank-log-dir",
        "torchrun",
        "--fault=index-error --rank=3 --step=5",
        crash(BUG, 3, "n2"),
        options="--redirects=3 --log-dir={folder}/logs",
        srun=EACH_NODE,
    ),
    Scene(
        "bug-on-one-rank-tee",
        "torchrun",
        "--fault=index-error --rank=1 --step=5",
        crash(BUG, 1, "n1"),
        options="--tee=3 --log-dir={folder}/logs",
    ),
    Scene("bug-on-one-rank-plain", "plain", "--fault=index-error --rank=3 --step=5", crash(BUG, 3, "n2")),
    Scene(
        "bug-on-one-rank-plain-labelled",
        "plain",
        "--fault=index-error --rank=1 --step=5",
        crash(BUG, 1, "n1"),
        srun="--label",
    ),
    Scene(
        "bug-after-resume",
        "resilient",
        f"{LONG} --library --fault=index-error --rank=3 --step=40",
        crash(BUG, 3, "n2"),
        preempt_and_wait,
        environment={"FAULTY_LIFE": "1"},
        options="--max-crashes=1",
        sbatch={"no_requeue": False, "requeue": True},
    ),
    Scene(
        "bug-after-a-crash",
        "resilient",
        "--steps=120 --save-every=20 --library --fault=recursion --rank=0 --step=40",
        Expect("CRASHED", "RecursionError", 0, "n1", attempt=2),
        crash_and_wait,
        environment={"FAULTY_LIFE": "1"},
        sbatch={"no_requeue": False, "requeue": True},
    ),
    Scene("shape-mismatch", "resilient", "--fault=shape --rank=1 --step=3", crash(SHAPE, 1, "n1")),
    Scene(
        "shape-mismatch-torchrun",
        "torchrun",
        "--fault=shape --rank=2 --step=3",
        crash(SHAPE, 2, "n2"),
        srun=EACH_NODE,
    ),
    Scene("nan", "resilient", "--fault=nan --rank=1 --step=4", crash("loss is nan", 1, "n1")),
    Scene(
        "version-skew",
        "torchrun",
        "--fault=old-library --rank=3 --out={folder}/lib",
        crash("cannot import name", 3, "n2"),
        before=OLD_LIBRARY,
        srun=EACH_NODE,
    ),
    Scene(
        "import-error-everywhere",
        "resilient",
        "--fault=old-library --rank=-1",
        everywhere("No module named"),
    ),
    Scene(
        "import-error-everywhere-torchrun",
        "torchrun",
        "--fault=old-library --rank=-1",
        everywhere("No module named"),
        srun=EACH_NODE,
    ),
    Scene(
        "arguments-unknown",
        "resilient",
        "--epochz=3",
        everywhere("unrecognized arguments|exit code 2|[Uu]sage"),
    ),
    Scene(
        "arguments-unknown-torchrun",
        "torchrun",
        "--epochz=3",
        everywhere("unrecognized arguments|exit code 2|[Uu]sage"),
        srun=EACH_NODE,
    ),
    Scene(
        "type-error-everywhere",
        "torchrun",
        "--fault=other-arguments --rank=-1 --step=0",
        everywhere("unexpected keyword"),
    ),
    Scene(
        "state-of-another-shape",
        "resilient",
        "--fault=wrong-state --rank=-1",
        everywhere("size mismatch|state_dict"),
    ),
    Scene(
        "state-without-keys",
        "torchrun",
        "--fault=missing-state --rank=-1",
        everywhere("Missing key|state_dict"),
        srun=EACH_NODE,
    ),
    Scene(
        "sample-bad",
        "torchrun",
        "--fault=bad-sample --rank=0 --step=3 --workers=1",
        crash("not in the vocabulary", 0, "n1"),
        srun=EACH_NODE,
    ),
    Scene(
        "worker-killed",
        "resilient",
        "--fault=kill-worker --rank=2 --step=3 --workers=1",
        Expect("CRASHED|OUT_OF_MEMORY", "DataLoader worker", 2, "n2"),
    ),
    Scene(
        "worker-killed-torchrun",
        "torchrun",
        "--fault=kill-worker --rank=1 --step=3 --workers=1",
        Expect("CRASHED|OUT_OF_MEMORY", "DataLoader worker", 1, "n1"),
        srun=EACH_NODE,
    ),
)
