"""What a canary has shown: stage by stage, as a value and as JSON. Pure."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass

FORMAT = 1


class Shown(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_SHOWN = "not shown"  # nothing is wrong with the training, but this could not be seen


class Verdict(enum.IntEnum):
    """The exit codes of `slurm-resilience canary`."""

    PASSED = 0
    FAILED = 2
    COULD_NOT_RUN = 3


_WORDS = {Verdict.PASSED: "passed", Verdict.FAILED: "failed", Verdict.COULD_NOT_RUN: "could not run"}


@dataclass(frozen=True, slots=True)
class Stage:
    part: str
    """`one node` or `all nodes`."""
    name: str
    shown: Shown
    sentence: str
    took_s: float


@dataclass(frozen=True, slots=True)
class Report:
    verdict: Verdict
    sentence: str
    stages: tuple[Stage, ...]
    folder: str
    """Where its runs and outputs are, or were."""
    kept: bool
    took_s: float

    @property
    def outcome(self) -> str:
        return _WORDS[self.verdict]


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The canary itself came to an end before the training could show anything: the job is preempted, say."""

    why: str


def conclude(stages: Sequence[Stage], gave_up: GaveUp | None, *, folder: str, kept: bool, took_s: float) -> Report:
    """A failure that was seen counts, whatever came after it."""
    failed = next((stage for stage in stages if stage.shown is Shown.FAILED), None)
    hidden = [stage for stage in stages if stage.shown is Shown.NOT_SHOWN]
    if failed is not None:
        verdict, sentence = Verdict.FAILED, f"on {failed.part}, {failed.name}: {failed.sentence}"
    elif gave_up is not None:
        verdict, sentence = Verdict.COULD_NOT_RUN, gave_up.why
    else:
        parts = list(dict.fromkeys(stage.part for stage in stages))
        what = "runs" if hidden else "runs, stops, saves and resumes"
        verdict, sentence = Verdict.PASSED, f"the training {what} on {' and on '.join(parts)}"
        sentence += f"; not shown: {hidden[0].name} ({hidden[0].sentence})" if hidden else ""
    return Report(verdict, sentence, tuple(stages), folder, kept, took_s)


def as_json(report: Report) -> str:
    stages = [
        {
            "part": stage.part,
            "stage": stage.name,
            "outcome": stage.shown.value,
            "sentence": stage.sentence,
            "took_s": round(stage.took_s, 3),
        }
        for stage in report.stages
    ]
    value = {
        "format": FORMAT,
        "outcome": report.outcome,
        "exit_code": int(report.verdict),
        "sentence": report.sentence,
        "stages": stages,
        "folder": report.folder,
        "kept": report.kept,
        "took_s": round(report.took_s, 3),
    }
    return json.dumps(value, indent=2)
