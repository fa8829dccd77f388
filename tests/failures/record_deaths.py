"""Runs in which a process, a node or memory was lost, and what triage has to say of them."""

from __future__ import annotations

from tests.failures.record_deeds import kill_agent, kill_rank, kill_supervisor, lose_node, terminate_launcher
from tests.failures.record_expect import Expect
from tests.failures.record_scene import Scene
from tests.failures.record_words import EACH_NODE, EACH_TASK, GONE, LONG, crash

KILLED = (
    Scene("rank-killed", "resilient", LONG, crash(GONE, 3, "n2"), kill_rank(3)),
    Scene("rank-killed-with-library", "resilient", f"{LONG} --library", crash(GONE, 1, "n1"), kill_rank(1)),
    Scene("rank-0-killed", "resilient", LONG, crash(GONE, 0, "n1"), kill_rank(0)),
    Scene("rank-killed-of-four-nodes", "resilient", LONG, crash(GONE, 2, "n3"), kill_rank(2), nodes=4, ranks=1),
    Scene("rank-killed-torchrun", "torchrun", LONG, crash(GONE, 3, "n2"), kill_rank(3), srun=EACH_NODE),
    Scene("rank-killed-torchrun-one-output", "torchrun", LONG, crash(GONE, 2, "n2"), kill_rank(2)),
    Scene("rank-killed-c10d", "c10d", LONG, crash(GONE, 3, "n2"), kill_rank(3), srun=EACH_TASK),
    Scene("rank-killed-plain", "plain", LONG, crash(GONE, 2, "n2"), kill_rank(2)),
    Scene("agent-killed", "resilient", LONG, crash(GONE, None, "n2"), kill_agent(1)),
    Scene("supervisor-killed", "resilient", LONG, Expect("SUPERVISOR_DIED", "supervisor"), kill_supervisor),
    Scene(
        "launcher-terminated",
        "torchrun",
        LONG,
        Expect("PREEMPTED|CANCELLED|WARNED", "SIGTERM|signal", None, "n2"),
        terminate_launcher(1),
        srun=EACH_NODE,
    ),
    Scene("segfault", "resilient", "--fault=segfault --rank=1 --step=3", crash("SIGSEGV|[Ss]egmentation", 1, "n1")),
    Scene(
        "segfault-torchrun",
        "torchrun",
        "--fault=segfault --rank=2 --step=3",
        crash("SIGSEGV|[Ss]egmentation", 2, "n2"),
        srun=EACH_NODE,
    ),
    Scene("segfault-plain", "plain", "--fault=segfault --rank=3 --step=3", crash("SIGSEGV|[Ss]egmentation", 3, "n2")),
    Scene("abort", "torchrun", "--fault=abort --rank=3 --step=3", crash("SIGABRT|[Aa]bort", 3, "n2")),
    Scene("exit-code", "resilient", "--fault=exit --rank=2 --step=3", crash("42", 2, "n2")),
    Scene(
        "exit-code-plain", "plain", "--fault=exit --rank=2 --step=3", crash("42", 2, "n2"), srun="--kill-on-bad-exit=1"
    ),
)

NODES = (
    Scene("node-lost", "resilient", LONG, Expect("NODE_FAILURE", "", None, "n2", "ELSEWHERE"), lose_node(1)),
    Scene(
        "node-lost-with-library",
        "resilient",
        f"{LONG} --library",
        Expect("NODE_FAILURE", "", None, "n2", "ELSEWHERE"),
        lose_node(1),
    ),
    Scene(
        "node-lost-of-four",
        "resilient",
        LONG,
        Expect("NODE_FAILURE", "", None, "n3", "ELSEWHERE"),
        lose_node(2),
        nodes=4,
        ranks=1,
    ),
    Scene(
        "node-lost-torchrun",
        "torchrun",
        LONG,
        Expect("NODE_FAILURE", "", None, "n2", "ELSEWHERE"),
        lose_node(1),
        srun=EACH_NODE,
    ),
    Scene("node-lost-plain", "plain", LONG, Expect("NODE_FAILURE", "", None, "n2", "ELSEWHERE"), lose_node(1)),
)

MEMORY = (
    Scene(
        "memory-cgroup",
        "resilient",
        "--fault=eat-memory --rank=3 --step=3",
        Expect("OUT_OF_MEMORY", "OOM|oom|memory", 3, "n2"),
        sbatch={"mem": "2500"},
        memory_cgroup=True,
    ),
    Scene(
        "memory-cgroup-torchrun",
        "torchrun",
        "--fault=eat-memory --rank=2 --step=3",
        Expect("OUT_OF_MEMORY", "OOM|oom|memory", 2, "n2"),
        srun=EACH_NODE,
        sbatch={"mem": "2500"},
        memory_cgroup=True,
    ),
    Scene(
        "memory-cgroup-plain",
        "plain",
        "--fault=eat-memory --rank=1 --step=3",
        Expect("OUT_OF_MEMORY", "OOM|oom|memory", 1, "n1"),
        sbatch={"mem": "2500"},
        memory_cgroup=True,
    ),
    Scene(
        "memory-allocator",
        "resilient",
        "--fault=want-memory --rank=1 --step=3",
        Expect("OUT_OF_MEMORY", "can't allocate memory", 1, "n1"),
    ),
    Scene(
        "memory-allocator-torchrun",
        "torchrun",
        "--fault=want-memory --rank=3 --step=3",
        Expect("OUT_OF_MEMORY", "can't allocate memory", 3, "n2"),
        srun=EACH_NODE,
    ),
    Scene(
        "memory-error",
        "torchrun",
        "--fault=want-list --rank=2 --step=3",
        Expect("OUT_OF_MEMORY", "MemoryError", 2, "n2"),
        srun=EACH_TASK,
    ),
    Scene(
        "memory-error-with-library",
        "resilient",
        "--fault=want-list --rank=2 --step=3 --library",
        Expect("OUT_OF_MEMORY", "MemoryError", 2, "n2"),
    ),
)
