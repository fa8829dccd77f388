"""What administrators have set up: partitions, nodes, and the times in them."""

from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.node_list import united
from slurm_resilience.slurm.answers.nodes import read_nodes
from slurm_resilience.slurm.answers.partitions import read_partition
from slurm_resilience.slurm.answers.times import span_s

PARTITION = "PartitionName=low GraceTime={} Hidden=NO MaxTime={} OverTimeLimit={} PreemptMode=GANG,SUSPEND State=UP\n"


def node(name: str, states: str, reason: str = "none") -> str:
    return name.ljust(300) + states.ljust(400) + reason.ljust(600) + "\n"


def test_a_partition_is_read_with_units() -> None:
    record = read_partition("low", PARTITION.format(15, "1-00:00:00", 5))
    assert (record.grace_time_s, record.preempt_mode) == (15, "GANG,SUSPEND")
    assert (record.max_time_s, record.over_time_limit_s) == (86400, 300)
    record = read_partition("low", PARTITION.format(0, "UNLIMITED", "NONE"))
    assert (record.max_time_s, record.over_time_limit_s) == (None, None)


def test_a_real_partition_of_24_11_is_read() -> None:
    recorded = Path(__file__).parents[3] / "recorded" / "24.11" / "answers" / "scontrol-partition"
    assert read_partition("low", recorded.read_text()).preempt_mode == "REQUEUE"


@pytest.mark.parametrize("answer", ["", "PartitionName=low Hidden=NO", "PartitionName=high GraceTime=15"])
def test_a_partition_without_its_grace_time_is_not_guessed_at(answer: str) -> None:
    with pytest.raises(SlurmUnparsable, match="GraceTime"):
        read_partition("low", answer)


def test_a_node_is_told_once_with_its_flags_and_its_reason() -> None:
    answer = (
        2 * node("n1", "idle+drain", "bad disk\n  State=IDLE") + node("n2", "down+not_responding") + node("n3", "idle")
    )
    first, second, third = read_nodes(answer)
    assert (first.name, first.states, first.reason) == ("n1", ("IDLE", "DRAIN"), "bad disk\n  State=IDLE")
    assert (second.states, second.reason) == (("DOWN", "NOT_RESPONDING"), "")
    assert (third.name, third.states) == ("n3", ("IDLE",))


def test_nodes_that_nobody_knows_are_none_and_an_answer_of_others_is_refused() -> None:
    assert read_nodes("") == ()
    with pytest.raises(SlurmUnparsable):
        read_nodes("n1 idle none\n")
    with pytest.raises(SlurmUnparsable, match="n1"):
        read_nodes(node("n1", ""))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("02:05", 125), ("01:00:00", 3600), ("2-00:00:01", 172801), ("UNLIMITED", None), ("", None)],
)
def test_lengths_of_time(text: str, seconds: int | None) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize(
    ("lists", "one"),
    [
        (["n[1-2]", "n3"], "n1,n2,n3"),
        (["n[1-2]-ib"], "n1-ib,n2-ib"),
        (["(null)", "n1"], "n1"),
        (["", "n1", "n1"], "n1"),
        ([], ""),
        (["a1", "b1"], "a1,b1"),
    ],
)
def test_lists_of_nodes_are_united(lists: list[str], one: str) -> None:
    assert united(lists) == one
