"""The text of the configuration files says what the spec says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox.config import (
    LONGEST_UNIX_SOCKET_BYTES,
    ClusterSpec,
    Layout,
    Site,
    cgroup_conf,
    node_names,
    short_enough,
    slurm_conf,
)

SITE = Site(
    tag="abc",
    hostname="host",
    user="alice",
    slurm_version=(22, 5),
    controller_port=11000,
    node_ports=(11001, 11002),
    runtime="/tmp/r",
    first_job_id=5000,
)
NODES = "abcn1,abcn2"
PREEMPTED = "PreemptMode=REQUEUE GraceTime=8"
LAYOUT = Layout(Path("/home/alice/c"), Path("/tmp/r"))


def rendered(**settings: object) -> list[str]:
    spec = dataclasses.replace(ClusterSpec(nodes=2), **settings)  # type: ignore[arg-type]
    return slurm_conf(spec, SITE, LAYOUT).splitlines()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"kill_wait_s": 7}, "KillWait=7"),
        ({"cred_expire_s": 9}, "AuthInfo=socket=/tmp/r/munge/socket,cred_expire=9"),
        ({"slurmd_timeout_s": 11}, "SlurmdTimeout=11"),
        ({"min_job_age_s": 12}, "MinJobAge=12"),
        ({"proctrack": "cgroup"}, "ProctrackType=proctrack/cgroup"),
        (
            {"sched_interval_s": 3, "sched_min_interval_us": 4, "bf_interval_s": 5},
            "SchedulerParameters=sched_interval=3,sched_min_interval=4,bf_interval=5",
        ),
        (
            {"grace_s": 8},
            f"PartitionName=low Nodes={NODES} Default=YES MaxTime=INFINITE PriorityTier=1 {PREEMPTED}",
        ),
        ({"extra": ("Licenses=a:1", "DebugFlags=Steps")}, "DebugFlags=Steps"),
        (
            {"cpus": 3, "memory_mb": 99},
            "NodeName=abcn2 NodeHostname=host NodeAddr=127.0.0.1 Port=11002 CPUs=3 RealMemory=99 State=UNKNOWN",
        ),
        ({}, "FirstJobId=5000"),
        ({}, "SlurmctldPort=11000"),
        ({}, "SlurmdUser=alice"),
    ],
)
def test_a_setting_reaches_its_line(settings: dict[str, object], line: str) -> None:
    assert line in rendered(**settings)


def test_an_extra_line_comes_after_ours_so_that_it_wins() -> None:
    lines = rendered(extra=("KillWait=99",))
    assert [line for line in lines if line.startswith("KillWait=")][-1] == "KillWait=99"


def test_two_clusters_share_no_name_port_or_path() -> None:
    other = dataclasses.replace(
        SITE, tag="xyz", controller_port=12000, node_ports=(12001, 12002), runtime="/tmp/q", first_job_id=9000
    )
    one = slurm_conf(ClusterSpec(nodes=2), SITE, LAYOUT)
    two = slurm_conf(ClusterSpec(nodes=2), other, Layout(Path("/home/alice/d"), Path("/tmp/q")))
    for text in ("abc", "11000", "11001", "11002", "/tmp/r", "/home/alice/c", "5000"):
        assert text in one
        assert text not in two


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", 0),
        ("nodes", 65),
        ("cpus", 0),
        ("memory_mb", 0),
        ("cred_expire_s", 4),
        ("grace_s", -1),
        ("kill_wait_s", -1),
        ("min_job_age_s", 1),
        ("slurmd_timeout_s", 0),
        ("sched_interval_s", 0),
        ("sched_min_interval_us", -1),
        ("bf_interval_s", 0),
        ("proctrack", "pgid"),
    ],
)
def test_a_setting_that_slurm_would_refuse_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=field):
        ClusterSpec(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("proctrack", "version", "line"),
    [
        ("cgroup", (22, 5), "CgroupPlugin=cgroup/v1"),
        ("cgroup", (24, 11), "CgroupPlugin=cgroup/v1"),
        ("linuxproc", (24, 11), "CgroupPlugin=disabled"),
        ("linuxproc", (23, 11), "CgroupPlugin=disabled"),
        ("linuxproc", (22, 5), None),
    ],
)
def test_the_cgroup_plugin_fits_the_version(proctrack: str, version: tuple[int, int], line: str | None) -> None:
    spec = ClusterSpec(proctrack="cgroup" if proctrack == "cgroup" else "linuxproc")
    plugins = [
        found
        for found in cgroup_conf(spec, dataclasses.replace(SITE, slurm_version=version)).splitlines()
        if found.startswith("CgroupPlugin")
    ]
    assert plugins == ([] if line is None else [line])


@given(st.integers(1, 64), st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=3), st.integers(0, 150))
def test_a_runtime_folder_that_is_short_enough_has_room_for_every_socket(nodes: int, tag: str, length: int) -> None:
    runtime = Path("/" + "x" * length)
    name = node_names(tag, nodes)[-1]
    highest_job, batch_step = 67_043_327, 4_294_967_291
    for socket in (f"spool/{name}/{name}_{highest_job}.{batch_step}.0", "munge/socket"):
        assert not short_enough(runtime) or len(str(runtime / socket)) <= LONGEST_UNIX_SOCKET_BYTES
