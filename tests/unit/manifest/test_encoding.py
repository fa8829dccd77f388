from __future__ import annotations

import hashlib
import json
import math
import subprocess
import typing
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.encoding import KINDS, NotUnderstood, NotWhatWasWritten, decode, encode
from slurm_resilience.manifest.records import (
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveFailed,
    SaveReason,
    TrainingFinished,
    checkpoint_id,
    known_metric,
)
from tests.unit.manifest.records_of_every_kind import law, lines

LINE = Line(7, 1_700_000_000.25, SaveFailed(2, 120, "no space left"))


def signed(value: dict[str, object]) -> bytes:
    """`value` as somebody else's version would write it."""
    body = json.dumps(value).encode()
    return body[:-1] + b', "sum": "' + hashlib.blake2b(body, digest_size=8).hexdigest().encode() + b'"}'


def as_written(line: Line) -> dict[str, object]:
    value = json.loads(encode(line))
    del value["sum"]
    return dict(value)


@law
@given(lines)
def test_every_line_comes_back_as_it_was(line: Line) -> None:
    assert decode(encode(line)[:-1]) == line


@law
@given(lines)
def test_a_line_is_one_line_of_plain_ascii_json(line: Line) -> None:
    raw = encode(line)
    assert raw.isascii()
    assert raw.count(b"\n") == 1
    assert raw.endswith(b"\n")
    assert list(json.loads(raw))[:3] == ["seq", "time", "kind"]


@law
@given(lines, st.data())
def test_no_cut_and_no_changed_byte_goes_unnoticed(line: Line, data: st.DataObject) -> None:
    raw = encode(line)[:-1]
    at = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[at]))
    for changed in (raw[:at], raw[:at] + bytes([other]) + raw[at + 1 :]):
        with pytest.raises(NotWhatWasWritten):
            decode(changed)


def test_a_line_reads_like_a_sentence_to_a_person() -> None:
    assert encode(LINE).decode() == (
        '{"seq": 7, "time": "2023-11-14T22:13:20.250000Z", "kind": "save_failed", "attempt": 2, "step": 120,'
        ' "why": "no space left", "sum": "ad9cb926b9ce83fe"}\n'
    )


def test_the_checksum_can_be_had_from_the_shell() -> None:
    raw = encode(LINE)
    command = r"""sed 's/, "sum": "[0-9a-f]*"}$/}/' | tr -d '\n' | b2sum -l 64 | cut -c1-16"""
    told = subprocess.run(["sh", "-c", command], input=raw, capture_output=True, check=True).stdout
    assert told.decode().strip() == json.loads(raw)["sum"]


def test_every_record_has_a_kind_and_no_field_of_its_hides_the_frame() -> None:
    assert set(KINDS.values()) == set(typing.get_args(Record))
    for record in KINDS.values():
        assert not {"seq", "time", "kind", "sum"} & {field.name for field in fields(record)}


def test_an_argument_that_is_not_utf8_survives() -> None:
    command = (b"--data=\xff\xfe".decode(errors="surrogateescape"), "naïve ✓\n\u2028")
    line = Line(2, 5.0, AttemptStarted(1, "local", command, "host"))
    assert decode(encode(line)[:-1]) == line


def test_a_number_without_a_word_in_json_is_refused_before_it_is_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(Line(2, 5.0, TrainingFinished(1, float("nan"))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "checkpoint_framed"}, "knows no 'checkpoint_framed'"),
        ({"kind": ["save_failed"]}, "knows no"),
        ({"mood": "good"}, "no field 'mood'"),
        ({"step": "120"}, "SaveFailed.step holds '120'"),
        ({"step": True}, "SaveFailed.step holds True"),
        ({"time": "yesterday"}, "no seq, time and kind"),
        ({"seq": None}, "no seq, time and kind"),
    ],
)
def test_what_this_version_does_not_know_is_not_understood(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(NotUnderstood, match=complaint):
        decode(signed(as_written(LINE) | change))


def test_a_missing_field_is_not_understood_but_one_with_a_default_has_it() -> None:
    without_why = as_written(LINE)
    del without_why["why"]
    with pytest.raises(NotUnderstood, match="lacks the field 'why'"):
        decode(signed(without_why))
    short = {"seq": 2, "time": "2023-11-14T22:13:20Z", "kind": "attempt_started", "attempt": 1, "mode": "bare"}
    line = decode(signed(short | {"command": ["a"], "host": "h"}))
    assert line.record == AttemptStarted(1, "bare", ("a",), "h")


def test_a_checkpoint_written_before_metric_and_stall_were_known_has_neither() -> None:
    committed = CheckpointCommitted(checkpoint_id(10, 1), 10, 1, SaveReason.STOP, 1, (), 1.5, metric=0.25, stall_s=0.1)
    value = as_written(Line(2, 5.0, committed))
    assert (value.pop("metric"), value.pop("stall_s")) == (0.25, 0.1)
    assert decode(signed(value)).record == replace(committed, metric=None, stall_s=None)


@pytest.mark.parametrize(
    ("said", "known"), [(None, None), (0.5, 0.5), (3, 3.0), (math.nan, None), (math.inf, None), (-math.inf, None)]
)
def test_a_metric_that_is_no_number_says_nothing(said: float | None, known: float | None) -> None:
    assert known_metric(said) == known
    committed = CheckpointCommitted(checkpoint_id(10, 1), 10, 1, SaveReason.STOP, 1, (), 1.5, metric=said)
    line = Line(2, 5.0, committed)
    assert decode(encode(line)[:-1]) == line
    assert committed.metric == known


@pytest.mark.parametrize("format_", [0, 2, None, "1"])
def test_another_format_is_not_understood(format_: object) -> None:
    created = as_written(Line(1, 5.0, RunCreated(RunId("r"), "name")))
    with pytest.raises(NotUnderstood, match="format"):
        decode(signed(created | {"format": format_}))


def test_a_cause_of_a_later_version_is_not_understood() -> None:
    value: dict[str, object] = {
        "seq": 3,
        "time": "2023-11-14T22:13:20Z",
        "kind": "attempt_ended",
        "attempt": 1,
        "because": "",
        "evidence": [],
        "decision": "stop",
        "decision_reason": "",
        "command_code": None,
    }
    decode(signed(value | {"cause": Cause.CRASHED.value}))
    with pytest.raises(NotUnderstood, match=r"AttemptEnded\.cause says 'eaten by a dog'"):
        decode(signed(value | {"cause": "eaten by a dog"}))


@pytest.mark.parametrize("value", [[1], 7, "text", None])
def test_json_that_is_no_line_is_not_understood(value: object) -> None:
    body = json.dumps(value).encode()[:-1] + b"}"
    raw = body[:-1] + b', "sum": "' + hashlib.blake2b(body, digest_size=8).hexdigest().encode() + b'"}'
    with pytest.raises(NotUnderstood):
        decode(raw)
