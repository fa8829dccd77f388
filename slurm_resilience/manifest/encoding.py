"""A line of the manifest as bytes: one JSON object that a person and jq can read, with a checksum of itself.

The checksum is of the bytes as they stand, not of what they mean: it can be checked without knowing how we write JSON.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime, timezone
from typing import Any, Union, get_args, get_origin, get_type_hints

from slurm_resilience.manifest.records import (
    FORMAT,
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointPinned,
    CheckpointPublished,
    CheckpointQuarantined,
    CheckpointReleased,
    CheckpointStaged,
    CheckpointUnpinned,
    CheckpointVerified,
    DecisionCarriedOut,
    GoOnAsked,
    Line,
    Record,
    RunCreated,
    RunFinished,
    SaveFailed,
    StopAsked,
    SuccessorPlanned,
    SuccessorQueued,
    TrainingFinished,
)

KINDS: dict[str, type[Record]] = {
    "run_created": RunCreated,
    "attempt_started": AttemptStarted,
    "attempt_resumed": AttemptResumed,
    "checkpoint_committed": CheckpointCommitted,
    "checkpoint_staged": CheckpointStaged,
    "checkpoint_published": CheckpointPublished,
    "checkpoint_verified": CheckpointVerified,
    "checkpoint_pinned": CheckpointPinned,
    "checkpoint_unpinned": CheckpointUnpinned,
    "checkpoint_damaged": CheckpointDamaged,
    "checkpoint_quarantined": CheckpointQuarantined,
    "checkpoint_released": CheckpointReleased,
    "checkpoint_forgotten": CheckpointForgotten,
    "save_failed": SaveFailed,
    "stop_asked": StopAsked,
    "training_finished": TrainingFinished,
    "successor_planned": SuccessorPlanned,
    "successor_queued": SuccessorQueued,
    "attempt_ended": AttemptEnded,
    "go_on_asked": GoOnAsked,
    "decision_carried_out": DecisionCarriedOut,
    "run_finished": RunFinished,
}
_Reader = Callable[[Any], Any]
_KIND_OF = {record: kind for kind, record in KINDS.items()}
_SUM_BYTES = 8
_SUM_HEAD = b', "sum": "'
_SUM_TAIL = b'"}'
_SUM_LENGTH = len(_SUM_HEAD) + 2 * _SUM_BYTES + len(_SUM_TAIL)


class NotWhatWasWritten(Exception):
    """The bytes are not those of a line: torn or damaged."""


class NotUnderstood(Exception):
    """The bytes are as they were written, by somebody who knew more kinds, fields or formats than we do."""


def encode(line: Line) -> bytes:
    """`line` with its newline. Raises ValueError for a number that JSON has no word for."""
    value = {"seq": line.seq, "time": _time_text(line.time_s), "kind": _KIND_OF[type(line.record)]}
    value |= _fields_of(line.record)
    # ASCII only: every string survives, a file name that isn't UTF-8 too, and a cut never falls inside a character.
    body = json.dumps(value, allow_nan=False).encode("ascii")
    return body[:-1] + _SUM_HEAD + _sum(body) + _SUM_TAIL + b"\n"


def decode(raw: bytes) -> Line:
    """The line whose bytes, without the newline, are `raw`. Raises NotWhatWasWritten and NotUnderstood."""
    body, said = raw[:-_SUM_LENGTH] + b"}", raw[-_SUM_LENGTH:]
    if said != _SUM_HEAD + _sum(body) + _SUM_TAIL:
        raise NotWhatWasWritten("its checksum is not that of its content")
    try:
        value = json.loads(body)
        seq, time_s, kind = int(value.pop("seq")), _time_s(value.pop("time")), str(value.pop("kind"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotUnderstood("it has no seq, time and kind as this version writes them") from error
    if kind not in KINDS:
        raise NotUnderstood(f"this version of slurm-resilience knows no {kind!r}")
    if kind == "run_created" and value.get("format") != FORMAT:
        raise NotUnderstood(f"format {value.get('format')!r}; this version of slurm-resilience knows format {FORMAT}")
    return Line(seq, time_s, _record(KINDS[kind], value))


def _sum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_SUM_BYTES).hexdigest().encode("ascii")


def _time_text(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time_s(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()  # Python 3.10 doesn't know Z


def _fields_of(record: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return _fields_of(value)
    return value


def _record(cls: type[Any], value: dict[str, Any]) -> Any:
    shape: _Shape = _shape(cls)  # type: ignore[arg-type]  # a class is hashable
    if value.keys() != shape.readers.keys():
        _complain(cls, shape, value)
    readers = shape.readers
    # A run of a thousand ranks has millions of parts: no look at type hints a value, only once a class.
    return cls(**{name: readers[name](item) for name, item in value.items()})


def _complain(cls: type[Any], shape: _Shape, value: dict[str, Any]) -> None:
    unknown = value.keys() - shape.readers.keys()
    if unknown:  # an unknown fact could be the one that matters
        raise NotUnderstood(f"this version of slurm-resilience knows no field {min(unknown)!r} in {cls.__name__}")
    missing = shape.required - value.keys()
    if missing:
        raise NotUnderstood(f"{cls.__name__} lacks the field {min(missing)!r}")


@dataclass(frozen=True, slots=True)
class _Shape:
    readers: dict[str, _Reader]
    required: frozenset[str]


@functools.cache
def _shape(cls: type[Any]) -> _Shape:
    hints = get_type_hints(cls)
    readers = {field.name: _reader(hints[field.name], f"{cls.__name__}.{field.name}") for field in fields(cls)}
    required = (f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING)
    return _Shape(readers, frozenset(required))


def _reader(hint: Any, where: str) -> _Reader:
    """What makes a field of type `hint` from its JSON, or raises NotUnderstood."""
    hint = getattr(hint, "__supertype__", hint)  # a NewType
    if get_origin(hint) in (Union, types.UnionType):
        (arm,) = (arm for arm in get_args(hint) if arm is not type(None))
        inner = _reader(arm, where)
        return lambda value: None if value is None else inner(value)
    if get_origin(hint) is tuple:
        item_reader = _reader(get_args(hint)[0], where)
        return lambda value: tuple(map(item_reader, _of_type(value, list, where)))
    if is_dataclass(hint) and isinstance(hint, type):
        record: type[Any] = hint
        return lambda value: _record(record, _of_type(value, dict, where))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        members = {member.value: member for member in hint}
        return lambda value: _member(members, value, where)
    if hint is float:
        return lambda value: float(value) if type(value) is int else _of_type(value, float, where)
    return lambda value: _of_type(value, hint, where)


def _of_type(value: Any, kind: type[Any], where: str) -> Any:
    if type(value) is not kind:  # not isinstance: True is no number of steps
        raise NotUnderstood(f"{where} holds {value!r}")
    return value


def _member(members: dict[Any, Any], value: Any, where: str) -> Any:
    if not isinstance(value, str) or value not in members:
        raise NotUnderstood(f"{where} says {value!r}: unknown to this version of slurm-resilience")
    return members[value]
