"""squeue's columns: whatever users write into a comment, every record is found and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.columns import _COMMENT_BYTES, _FIELDS, _RECORD, read_records
from slurm_resilience.slurm.client import JobRecord, JobState


def line(comment: str = "(null)", **changed: str) -> str:
    values = {
        "JobArrayID": "37316000",
        "StateCompact": "R",
        "State": "RUNNING",
        "Reason": "None",
        "RestartCnt": "0",
        "Requeue": "1",
        "BatchFlag": "1",
        "StartTime": "2026-11-29T20:55:24",
        "EndTime": "2027-11-29T20:55:24",
        "PreemptTime": "N/A",
        "Partition": "low",
        "PriorityLong": "4294901759",
        "exit_code": "0",
        "BatchHost": "n1",
        "QOS": "(null)",
        "Dependency": "(null)",
        "NodeList": "n[1-2]",
    } | changed
    fixed = "".join(values[name].ljust(width)[:width] for name, width in _FIELDS)
    cut = comment.encode()[:_COMMENT_BYTES]
    return fixed + (cut + b" " * (_COMMENT_BYTES - len(cut))).decode(errors="replace") + "\n"


def read(**changed: str) -> JobRecord:
    (record,) = read_records(line(**changed))
    return record


def test_a_running_job_is_read_column_by_column() -> None:
    record = read()
    assert (record.job, record.state, record.restarts) == ("37316000", JobState.RUNNING, 0)
    assert (record.requeue, record.batch, record.partition, record.nodes) == (True, True, "low", "n[1-2]")
    assert (record.qos, record.dependency, record.comment) == ("", "", "")
    assert record.end_s is not None
    assert record.preempted_s is None


@pytest.mark.parametrize(
    ("compact", "word", "state", "completing"),
    [
        ("CG", "COMPLETING", JobState.UNKNOWN, True),
        ("PD", "PENDING", JobState.PENDING, False),
        ("RH", "REQUEUE_HOLD", JobState.PENDING, False),
        ("CF", "CONFIGURING", JobState.RUNNING, False),
        ("SI", "SIGNALING", JobState.RUNNING, False),
        ("XX", "A_NEW_WORD", JobState.UNKNOWN, False),
    ],
)
def test_a_word_we_do_not_know_is_unknown_and_never_finished(
    compact: str, word: str, state: JobState, completing: bool
) -> None:
    record = read(StateCompact=compact, State=word)
    assert (record.state, record.completing) == (state, completing)


@pytest.mark.parametrize(
    ("words", "code", "number"),
    [("0", 0, 0), ("768", 3, 0), ("9", 0, 9), ("143", 0, 15), ("3:0", 3, 0), ("0:9", 0, 9), ("n/a", None, None)],
)
def test_the_exit_is_read_from_the_status_of_wait_and_from_pairs(
    words: str, code: int | None, number: int | None
) -> None:
    record = read(StateCompact="F", State="FAILED", exit_code=words)
    assert (record.exit_code, record.exit_signal) == (code, number)


def test_a_held_job_is_seen_by_its_priority_and_only_while_it_waits() -> None:
    assert read(StateCompact="PD", State="PENDING", PriorityLong="0", Reason="JobHeldAdmin").held
    assert not read(PriorityLong="0").held


def test_a_comment_can_not_be_a_record_however_it_is_broken() -> None:
    forged = line(JobArrayID="1", State="FAILED", StateCompact="F")
    answer = line(f"mine\n{forged[:1000]}", JobArrayID="2") + line("ours", JobArrayID="3")
    assert [(record.job, record.state) for record in read_records(answer)] == [
        ("2", JobState.RUNNING),
        ("3", JobState.RUNNING),
    ]


@given(st.lists(st.text(max_size=1200), max_size=4))
def test_any_comments_leave_the_records_what_they_are(comments: list[str]) -> None:
    answer = "".join(line(comment, JobArrayID=str(number)) for number, comment in enumerate(comments, 1))
    records = read_records(answer)
    assert [record.job for record in records] == [str(number) for number in range(1, len(comments) + 1)]
    assert all(record.state is JobState.RUNNING and record.nodes == "n[1-2]" for record in records)


def test_no_comment_that_slurm_takes_is_as_wide_as_a_record() -> None:
    assert _COMMENT_BYTES < _RECORD


def test_what_was_cut_is_refused_where_it_matters_and_marked_where_it_is_only_shown() -> None:
    with pytest.raises(SlurmUnparsable, match="NodeList"):
        read_records(line(NodeList="n" * 4000))
    assert read(Dependency="afterany:1(unfulfilled)," * 100).dependency.endswith("…")


@pytest.mark.parametrize("answer", ["something else entirely\n", line(RestartCnt="?"), line(JobArrayID="")])
def test_an_answer_that_is_no_record_is_not_guessed_at(answer: str) -> None:
    with pytest.raises(SlurmUnparsable):
        read_records(answer)


@pytest.mark.parametrize("answer", ["", "\n"])
def test_nothing_is_no_job(answer: str) -> None:
    assert read_records(answer) == ()
