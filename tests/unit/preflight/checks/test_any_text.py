"""Whatever the kernel, a driver or a user has written somewhere: it is read, or left out, and never an exception."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.checks.fabric.bond import read_bond
from slurm_resilience.preflight.checks.fabric.bonding import judge as judge_bond
from slurm_resilience.preflight.checks.fabric.nccl_names import nccl_names, whole_names
from slurm_resilience.preflight.checks.fabric.nccl_settings import settings_in
from slurm_resilience.preflight.checks.gpu.expected import visible
from slurm_resilience.preflight.checks.kernel_log.source import from_text
from slurm_resilience.preflight.checks.kernel_log.trouble import Line, troubles
from slurm_resilience.preflight.checks.node.load import numbers_in
from slurm_resilience.preflight.checks.storage.file_system import file_system_of
from slurm_resilience.preflight.checks.summary import age, listed
from slurm_resilience.preflight.result import Outcome
from tests.unit.preflight.checks.scene import complete, tree

WORDS = st.sampled_from(
    [
        "NVRM: Xid (PCI:0000:3b:00): ",
        "79, pid=1",
        "154, GPU recovery action changed from 0x0 (None) to 0x0 (None)",
        "SXid (PCI:0000:c1:00.0): 12028, Fatal",
        "nfs: server fs1 not responding",
        "nfs: server fs1 OK",
        "eth0: Link is Down",
        "[12.5] ",
        "\n",
        "Slave Interface: eth0\n",
        "MII Status: up\n",
        "Speed: 10 Mbps\n",
        "Aggregator ID: N/A\n",
        "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\n",
        "details partner lacp pdu:\n",
        " - ext4 ",
        "1 2 3 / / rw",
        "^",
        "=",
        ",",
        ":",
    ]
)
TEXT = st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=12).map("".join)


@given(TEXT)
def test_any_text_is_read_or_left_out(text: str):
    bond = read_bond("bond0", text)
    for finding in judge_bond(bond, {"bond0/eth0": 1}):
        complete(finding)
    names = nccl_names(text)
    assert names is None or isinstance(names.mean("eth0", 1), bool)
    whole_names(text)
    settings_in(text)
    visible({"CUDA_VISIBLE_DEVICES": text})
    from_text(text)
    with tempfile.TemporaryDirectory() as folder:
        file_system_of(Path("/x"), tree(Path(folder), {"proc/self/mountinfo": text.encode(errors="replace").decode()}))


@given(st.lists(TEXT, max_size=8), st.lists(st.floats(0, 1e6), min_size=8, max_size=8))
def test_any_log_is_judged_and_what_is_old_fails_nothing(texts: list[str], times: list[float]):
    lines = [Line(at_s, text) for at_s, text in zip(sorted(times), texts, strict=False)]
    for finding in troubles(lines, uptime_s=1e6)[0]:
        complete(finding)
    assert not [each for each in troubles(lines, uptime_s=2e6)[0] if each.outcome is Outcome.FAIL]


@given(st.lists(st.integers(0, 500), min_size=1, max_size=10))
def test_a_list_of_processors_is_read_back(numbers: list[int]):
    assert numbers_in(",".join(map(str, numbers))) == numbers


@given(st.integers(0, 1 << 60))
def test_any_age_has_words(number: int):
    assert age(number)[0].isdigit()


def test_a_long_list_is_told_by_its_first_names():
    assert listed("abcdef") == "a, b, c, d and 2 more"
    assert listed([]) == ""
