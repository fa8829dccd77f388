from __future__ import annotations

from pathlib import Path

from benchmarks.event_log import EventLog, read_events


def test_what_is_told_is_read_in_order(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "new" / "events")
    log.tell("stepped", step=1)
    log.tell("saved", step=1)
    assert [(event.what, event.values) for event in read_events(tmp_path / "new" / "events")] == [
        ("stepped", {"step": 1}),
        ("saved", {"step": 1}),
    ]


def test_a_line_still_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "events"
    EventLog(path).tell("stepped", step=1)
    with path.open("a") as file:
        file.write('{"what": "ste')
    assert [event.values["step"] for event in read_events(path)] == [1]


def test_a_program_that_said_nothing_yet_has_no_events(tmp_path: Path) -> None:
    assert read_events(tmp_path / "none") == []
