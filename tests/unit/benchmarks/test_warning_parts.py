from __future__ import annotations

from benchmarks.warning_to_durable.parts import PARTS, Stop, summary


def stop(asked_s: float, each_s: float) -> Stop:
    return Stop(asked_s, {part: asked_s + each_s * number for number, part in enumerate(PARTS, 1)})


def test_a_part_lasts_from_the_end_of_the_one_before() -> None:
    one = stop(100.0, 0.5)
    assert {one.took(part) for part in PARTS} == {0.5}
    assert one.since("requeued") == 0.5 * len(PARTS)


def test_the_medians_are_over_stops_and_not_over_parts() -> None:
    told = summary([stop(0, 1), stop(50, 2), stop(90, 9)])
    assert told.took["committed"].median == 2
    assert told.since["heard"].median == 2
    assert told.since["heard"].count == 3
