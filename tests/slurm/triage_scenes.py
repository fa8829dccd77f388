"""Scenes of tests/failures made small: one rank on each of two nodes, so that two cores play seven in half a minute."""

from __future__ import annotations

from tests.failures.record_deeds import cancel, kill_rank, lose_node, preempt
from tests.failures.record_expect import Expect
from tests.failures.record_scene import Scene
from tests.failures.record_surroundings import FULL_DISK
from tests.failures.record_words import EACH_NODE, GONE, LONG

_BUG = "IndexError: list index out of range"


def _small(name: str, way: str, arguments: str, expect: Expect, *, before: str = "", srun: str = "") -> Scene:
    return Scene(name, way, arguments, expect, before=before, srun=srun, ranks=1, patience_s=600)


FAILED = (
    Scene("rank-killed", "resilient", LONG, Expect("CRASHED", GONE, 1, "n2"), kill_rank(1), ranks=1, patience_s=600),
    _small("bug", "resilient", "--fault=index-error --rank=1 --step=3", Expect("CRASHED", _BUG, 1, "n2")),
    _small(
        "shape-mismatch",
        "resilient",
        "--fault=shape --rank=1 --step=3",
        Expect("CRASHED", "collective mismatch", 1, "n2"),
    ),
    _small("hang", "resilient", "--fault=sleep --rank=1 --step=3 --timeout=20", Expect("HUNG", "Timed out", 1, "n2")),
    _small(
        "disk-full",
        "resilient",
        "--fault=fill-disk --rank=1 --step=3 --out={folder}/small",
        Expect("STORAGE", "No space left", 1, "n2"),
        before=FULL_DISK,
    ),
    _small(
        "bug-torchrun",
        "torchrun",
        "--fault=index-error --rank=1 --step=3",
        Expect("CRASHED", _BUG, 1, "n2"),
        srun=EACH_NODE,
    ),
    Scene(
        "rank-killed-torchrun",
        "torchrun",
        LONG,
        Expect("CRASHED", GONE, 1, "n2"),
        kill_rank(1),
        srun=EACH_NODE,
        ranks=1,
        patience_s=600,
    ),
)

ENDED = (
    Scene(
        "time-limit",
        "resilient",
        f"{LONG} --library",
        Expect("TIME_LIMIT"),
        options="--stop-before-end=45",
        sbatch={"time": "1"},
        ranks=1,
        patience_s=600,
    ),
    Scene("preempted", "resilient", f"{LONG} --library", Expect("PREEMPTED"), preempt, ranks=1, patience_s=600),
    Scene("cancelled", "resilient", LONG, Expect("CANCELLED"), cancel, ranks=1, patience_s=600),
    Scene(
        "node-lost", "resilient", LONG, Expect("NODE_FAILURE", "", None, "n2"), lose_node(1), ranks=1, patience_s=600
    ),
)
