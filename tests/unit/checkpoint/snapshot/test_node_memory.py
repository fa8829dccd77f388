"""What /proc and the control groups say of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.checkpoint.snapshot.node_memory import NodeMemory, node_memory

MIB = 1 << 20


def _tree(root: Path, files: dict[str, str]) -> Path:
    files = {"proc/meminfo": "MemTotal:  9 kB\nMemAvailable:    2048 kB\n", **files}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_control_groups_there_is_no_limit(tmp_path):
    assert node_memory(_tree(tmp_path, {})) == NodeMemory(2 * MIB, None)


def test_the_tightest_group_from_ours_to_the_top_counts(tmp_path):
    files = {
        "proc/self/cgroup": "0::/system.slice/job_1/step_0\n",
        "sys/fs/cgroup/system.slice/job_1/step_0/memory.max": "max\n",
        "sys/fs/cgroup/system.slice/job_1/memory.max": f"{100 * MIB}\n",
        "sys/fs/cgroup/system.slice/job_1/memory.current": f"{60 * MIB}\n",
        "sys/fs/cgroup/system.slice/job_1/memory.stat": f"anon 1\ninactive_file {10 * MIB}\n",
        "sys/fs/cgroup/system.slice/memory.max": f"{1000 * MIB}\n",
        "sys/fs/cgroup/system.slice/memory.current": f"{900 * MIB}\n",
    }
    assert node_memory(_tree(tmp_path, files)).limit_bytes == 50 * MIB


def test_version_1_is_read_and_its_way_of_saying_no_limit_is_understood(tmp_path):
    files = {
        "proc/self/cgroup": "12:cpu,cpuacct:/x\n5:memory:/slurm/uid_0/job_1\n0::/x\n",
        "sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.limit_in_bytes": f"{100 * MIB}\n",
        "sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.usage_in_bytes": f"{30 * MIB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
    }
    assert node_memory(_tree(tmp_path, files)).limit_bytes == 70 * MIB


def test_a_path_that_is_only_the_hosts_leaves_the_containers_top(tmp_path):
    files = {
        "proc/self/cgroup": "0::/docker/abc\n",
        "sys/fs/cgroup/memory.max": f"{8 * MIB}\n",
        "sys/fs/cgroup/memory.current": f"{9 * MIB}\n",
    }
    assert node_memory(_tree(tmp_path, files)).limit_bytes == 0


def test_a_machine_that_does_not_say_what_is_available_is_an_error(tmp_path):
    with pytest.raises(OSError, match="MemAvailable"):
        node_memory(_tree(tmp_path, {"proc/meminfo": "MemTotal: 1 kB\n"}))


def test_this_machine_answers():
    assert node_memory().available_bytes > 0
