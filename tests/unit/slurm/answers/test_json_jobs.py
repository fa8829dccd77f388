"""squeue's JSON of every schema we know; `squeue.json` and its like are real (tests/recorded)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.errors import SlurmUnparsable
from slurm_resilience.slurm.answers.columns import read_records
from slurm_resilience.slurm.answers.json_jobs import read_jobs, schema_option
from slurm_resilience.slurm.client import JobRecord, JobState

RECORDED = Path(__file__).parents[3] / "recorded"
A_YEAR_S = 360 * 86400


def number(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


FLAT: dict[str, Any] = {
    "job_id": 7,
    "array_job_id": 0,
    "array_task_id": None,
    "array_task_string": "",
    "job_state": "RUNNING",
    "priority": 1,
    "exit_code": 0,
    "state_reason": "None",
    "restart_cnt": 0,
    "requeue": True,
    "batch_flag": True,
    "start_time": 1000,
    "end_time": 2000,
    "preempt_time": 0,
    "partition": "low",
    "nodes": "n[1-2]",
    "batch_host": "n1",
    "qos": "",
    "dependency": "",
    "comment": "ours",
    "user_id": 1000,
}
NUMBERS = FLAT | {
    name: number(FLAT[name]) for name in ("array_job_id", "array_task_id", "priority", "start_time", "end_time")
}
NUMBERS |= {"preempt_time": number(0), "exit_code": {"status": "SUCCESS", "return_code": 0, "signal": {"signal_id": 0}}}
LISTS = NUMBERS | {
    "job_state": ["RUNNING"],
    "exit_code": {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(None), "name": ""}},
}


def answer(schema: str, *jobs: dict[str, Any]) -> str:
    old = {"plugin": {"type": f"openapi/{schema}"}}
    new = {"plugin": {"type": "", "data_parser": f"data_parser/{schema}"}}
    return json.dumps({"meta": old if schema == "v0.0.38" else new, "errors": [], "jobs": jobs})


def read(schema: str, job: dict[str, Any]) -> JobRecord:
    (listed,) = read_jobs(answer(schema, job))
    return listed.record


@pytest.mark.parametrize(
    ("schema", "job"),
    [("v0.0.38", FLAT), ("v0.0.39", NUMBERS), *((f"v0.0.{number}", LISTS) for number in range(40, 46))],
)
def test_every_schema_tells_the_same_job(schema: str, job: dict[str, Any]) -> None:
    record = read(schema, job)
    assert record == read("v0.0.38", FLAT)
    assert (record.state, record.start_s, record.end_s, record.preempted_s) == (JobState.RUNNING, 1000, 2000, None)


def test_json_and_columns_of_one_moment_tell_the_same_jobs() -> None:
    folder = RECORDED / "22.05" / "json"
    columns = {record.job: record for record in read_records((folder / "squeue.columns").read_text())}
    told = {listed.record.job: listed.record for listed in read_jobs((folder / "squeue.json").read_text())}
    assert len(columns) == 11
    for job, record in told.items():
        # Of a job without a limit the columns show no end, and JSON one that is a year away.
        endless = record.start_s is not None and record.end_s is not None and record.end_s - record.start_s > A_YEAR_S
        assert columns[job] == (replace(record, end_s=columns[job].end_s) if endless else record)
    assert columns.keys() == told.keys()


@pytest.mark.parametrize(
    ("name", "tasks"), [("squeue.json", [""]), ("squeue-pinned.json", [""]), ("squeue-array.json", ["2", "1", "0"])]
)
def test_real_answers_of_24_11_are_read(name: str, tasks: list[str]) -> None:
    listed = read_jobs((RECORDED / "24.11" / "answers" / name).read_text())
    assert [one.record.job.partition("_")[2] for one in listed] == tasks
    assert {one.record.partition for one in listed} == {"low"}


@pytest.mark.parametrize("schema", ["v0.0.37", "v0.0.46", "v1.2.3", ""])
def test_a_schema_we_do_not_know_is_refused_and_not_guessed_at(schema: str) -> None:
    with pytest.raises(SlurmUnparsable, match="schema"):
        read_jobs(answer(schema, LISTS))


@pytest.mark.parametrize(
    ("words", "state", "completing"),
    [
        (["PENDING", "REQUEUED"], JobState.PENDING, False),
        (["RUNNING", "CONFIGURING"], JobState.RUNNING, False),
        (["FAILED", "COMPLETING"], JobState.UNKNOWN, True),
        ("COMPLETING", JobState.UNKNOWN, True),
        ("SIGNALING", JobState.RUNNING, False),
        (["A_NEW_WORD"], JobState.UNKNOWN, False),
        (["RUNNING", "FAILED"], JobState.UNKNOWN, False),
        ([], JobState.UNKNOWN, False),
    ],
)
def test_a_state_is_its_base_and_unknown_where_there_is_not_one(
    words: object, state: JobState, completing: bool
) -> None:
    record = read("v0.0.42", LISTS | {"job_state": words})
    assert (record.state, record.completing) == (state, completing)


@pytest.mark.parametrize(
    ("told", "code", "signal"),
    [
        (768, 3, 0),
        (9, 0, 9),
        ({"status": "ERROR", "return_code": 3, "signal": {"signal_id": 0}}, 3, 0),
        ({"status": ["SIGNALED"], "return_code": number(None), "signal": {"id": number(15), "name": "TERM"}}, 0, 15),
    ],
)
def test_an_exit_code_is_a_status_or_a_structure(told: object, code: int, signal: int) -> None:
    record = read("v0.0.42", LISTS | {"exit_code": told})
    assert (record.exit_code, record.exit_signal) == (code, signal)


def test_a_priority_of_0_is_a_hold_and_no_priority_is_none() -> None:
    waiting = LISTS | {"job_state": ["PENDING"]}
    assert read("v0.0.42", waiting | {"priority": number(0)}).held
    assert not read("v0.0.42", waiting | {"priority": number(None)}).held


def test_a_time_without_an_end_is_none() -> None:
    endless = {"set": True, "infinite": True, "number": 0}
    assert read("v0.0.42", LISTS | {"end_time": endless}).end_s is None
    assert read("v0.0.38", FLAT | {"end_time": 0xFFFFFFFE}).end_s is None


@pytest.mark.parametrize(
    ("text", "jobs"), [("1,4-6%2", ["9_1", "9_4", "9_5", "9_6"]), ("0-8:4", ["9_0", "9_4", "9_8"])]
)
def test_elements_that_wait_in_one_record_are_told_one_by_one(text: str, jobs: list[str]) -> None:
    array = LISTS | {"job_id": 9, "array_job_id": number(9), "array_task_string": text}
    assert [one.record.job for one in read_jobs(answer("v0.0.42", array))] == jobs


def test_nodes_are_text_or_a_structure() -> None:
    assert read("v0.0.42", LISTS | {"nodes": {"count": 2, "list": "n[1-2]"}}).nodes == "n[1-2]"
    with pytest.raises(SlurmUnparsable, match="nodes"):
        read("v0.0.42", LISTS | {"nodes": 2})


@pytest.mark.parametrize("name", ["job_id", "job_state", "restart_cnt", "requeue", "comment", "user_id"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(SlurmUnparsable, match=name):
        read("v0.0.42", {key: value for key, value in LISTS.items() if key != name})


@pytest.mark.parametrize("text", ["", "squeue: error", "[]", "{}", '{"meta": {}, "jobs": []}'])
def test_what_is_no_json_of_squeue_is_refused(text: str) -> None:
    with pytest.raises(SlurmUnparsable):
        read_jobs(text)


@pytest.mark.parametrize(
    ("release", "option"),
    [((22, 5), "--json"), ((23, 11), "--json"), ((24, 11), "--json=v0.0.42"), ((26, 5), "--json=v0.0.42")],
)
def test_the_schema_is_held_where_newer_versions_have_it_too(release: tuple[int, int], option: str) -> None:
    assert schema_option(release) == option
