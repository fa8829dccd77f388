"""Runs in which nothing failed, whatever they print."""

from __future__ import annotations

from tests.failures.record_deeds import Deed, crash_and_wait, preempt_and_wait, requeue, warn
from tests.failures.record_scene import Scene
from tests.failures.record_words import EACH_NODE, EACH_TASK


def healthy(name: str, way: str, arguments: str = "", *, options: str = "", srun: str = "", **more: str) -> Scene:
    return Scene(f"healthy-{name}", way, arguments, None, options=options, srun=srun, environment=more)


def resumed(name: str, deed: Deed) -> Scene:
    arguments = "--library --steps=60"
    return Scene(f"healthy-{name}", "resilient", arguments, None, deed, sbatch={"no_requeue": False, "requeue": True})


HEALTHY = (
    healthy("resilient", "resilient"),
    healthy("library", "resilient", "--library"),
    healthy("library-and-workers", "resilient", "--library --workers=2 --chat=warnings"),
    healthy("torchrun", "torchrun", srun=EACH_NODE),
    healthy("c10d", "c10d", srun=EACH_TASK),
    healthy("plain", "plain", "--chat=json"),
    healthy("bars", "torchrun", "--chat=bars"),
    healthy("bars-resilient", "resilient", "--chat=bars --workers=1"),
    healthy("warnings", "torchrun", "--chat=warnings", srun=EACH_NODE),
    healthy("warnings-labelled", "torchrun", "--chat=warnings", srun="--label"),
    healthy("caught", "resilient", "--chat=caught"),
    healthy("caught-torchrun", "torchrun", "--chat=caught", srun=EACH_NODE),
    healthy("caught-plain", "plain", "--chat=caught", srun=EACH_TASK),
    healthy("json-and-workers", "torchrun", "--chat=json --workers=2"),
    healthy("no-goodbye", "torchrun", "--no-goodbye", srun=EACH_NODE),
    healthy("no-goodbye-resilient", "resilient", "--no-goodbye"),
    healthy("tee", "torchrun", "--chat=warnings", options="--tee=3 --log-dir={folder}/logs"),
    healthy("log-dir", "torchrun", "--chat=caught", options="--redirects=3 --log-dir={folder}/logs"),
    healthy("debug", "torchrun", TORCH_DISTRIBUTED_DEBUG="INFO", TORCH_CPP_LOG_LEVEL="INFO", LOGLEVEL="INFO"),
    healthy("srun-talks", "resilient", srun="-v"),
    Scene("healthy-four-nodes", "resilient", "--library --chat=warnings", None, nodes=4, ranks=1),
    Scene("healthy-one-node", "torchrun", "--workers=1 --chat=bars", None, nodes=1),
    resumed("preempted-and-resumed", preempt_and_wait),
    resumed("warned-and-resumed", warn),
    resumed("requeued-by-hand", requeue),
    resumed("crashed-and-resumed", crash_and_wait),
)
