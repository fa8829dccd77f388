"""Reads PyTorch's flight recorder dumps: what each rank recorded of its collectives. They are pickles, newer ones JSON.

The name ends in the rank (`comm_lib_trace_rank_3`, `nccl_trace_rank_3`): the content doesn't tell it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_resilience.triage.account.account import Unread
from slurm_resilience.triage.account.collectives import Collective, Dump
from slurm_resilience.triage.account.restricted_pickle import NotPlain, load

LARGEST_BYTES = 64 << 20
MOST_ENTRIES = 100_000
HEAD_BYTES = 4096
_RANK = re.compile(r"(\d+)(?:\.(?:json|pickle|pkl))?$")
_TORCHS_OWN = ("/torch/", "/torch\\", "<frozen", "/lib/python")


@dataclass(frozen=True, slots=True)
class Dumps:
    dumps: tuple[Dump, ...]
    unread: tuple[Unread, ...]


def is_dump(name: str, head: bytes) -> bool:
    """By the first bytes of a file: a pickled dict that knows these words, or the JSON of one."""
    if _RANK.search(name) is None:
        return False
    words = (b"pg_config", b"entries", b"pg_status", b"nccl_version", b"comm_lib_version")
    known = sum(word in head for word in words)
    if head[:1] == b"\x80":
        return known >= 1 and b"version" in head
    return head.lstrip()[:1] == b"{" and (b'"collective_seq_id"' in head or known >= 2)


def read_dumps(paths: Iterable[Path]) -> Dumps:
    """The dumps among `paths`; of two of one rank the newer one. Never raises for what stands in them."""
    found: dict[int, tuple[float, Dump]] = {}
    unread: list[Unread] = []
    for path in sorted(paths):
        read = _read(path)
        if isinstance(read, Unread):
            unread.append(read)
        elif read[1].rank not in found or found[read[1].rank][0] < read[0]:
            found[read[1].rank] = read
    return Dumps(tuple(dump for _, (_, dump) in sorted(found.items())), tuple(unread))


def _read(path: Path) -> tuple[float, Dump] | Unread:
    try:
        status = path.stat()
        if status.st_size > LARGEST_BYTES:
            return Unread(
                str(path), f"the flight recorder dump {path} is not read: it is larger than {LARGEST_BYTES} B"
            )
        return status.st_mtime, parse(path.read_bytes(), str(path), rank_of(path.name))
    except NotPlain as error:
        return Unread(str(path), f"the flight recorder dump {path} is not read: {error}")
    except OSError as error:
        why = error.strerror or error
        return Unread(str(path), f"the flight recorder dump {path} can't be read: {why}")


def rank_of(name: str) -> int | None:
    found = _RANK.search(name)
    return None if found is None or len(found[1]) > 9 else int(found[1])


def parse(data: bytes, file: str, rank: int | None) -> Dump:
    """Raises NotPlain with one sentence's end for whatever is no dump."""
    if rank is None:
        raise NotPlain("its name doesn't end in a rank")
    value = _value(data)
    if not isinstance(value, dict) or not isinstance(value.get("entries", []), list):
        raise NotPlain("it is no flight recorder dump")
    entries = value.get("entries", [])[:MOST_ENTRIES]
    read = tuple(one for one in map(_collective, entries) if one is not None)
    if entries and not read:
        raise NotPlain("its entries are of a make that this version doesn't know")
    names = {entry.group.partition(":")[0]: entry.group for entry in read}
    members = _members(value.get("pg_config"), names)
    return Dump(rank, file, str(value.get("version", ""))[:20], read, members)


def _value(data: bytes) -> Any:
    if not data:
        raise NotPlain("it is empty")
    if data[:1] == b"\x80":
        return load(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotPlain("it is neither a whole pickle nor whole JSON") from error


def _collective(entry: Any) -> Collective | None:
    """None: of another make."""
    if not isinstance(entry, dict):
        return None
    group, seq, name = entry.get("process_group"), entry.get("collective_seq_id"), entry.get("profiling_name")
    if not isinstance(group, (list, tuple)) or len(group) != 2 or not isinstance(name, str):
        return None
    if not isinstance(seq, int) or not _is_count(seq):
        return None
    time_ns = entry.get("time_created_ns")
    description = "" if str(group[1]) == "undefined" else f":{str(group[1])[:60]}"
    return Collective(
        group=f"{str(group[0])[:60]}{description}",
        seq=seq,
        name=name.partition(":")[2][:60] or name[:60],
        state=str(entry.get("state", ""))[:20],
        sizes=_sizes(entry.get("input_sizes")),
        types=_types(entry.get("input_dtypes")),
        time_s=time_ns / 1e9 if isinstance(time_ns, int) and 0 < time_ns < 2**62 else None,
        where=_where(entry.get("frames")),
        p2p=entry.get("is_p2p") is True,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    plain = [size for size in value[:16] if isinstance(size, (list, tuple)) and all(map(_is_count, size[:16]))]
    return tuple(tuple(int(one) for one in size[:16]) for size in plain)


def _types(value: Any) -> tuple[str, ...]:
    return tuple(str(one)[:20] for one in value[:16]) if isinstance(value, (list, tuple)) else ()


def _where(frames: Any) -> str | None:
    """The innermost frame that is not torch's own."""
    if not isinstance(frames, (list, tuple)):
        return None
    for frame in frames[:64]:
        if isinstance(frame, dict):
            file = str(frame.get("filename", ""))
            if file and not any(own in file for own in _TORCHS_OWN):
                return f"{file.rpartition('/')[2][:80]}:{frame.get('line')} in {str(frame.get('name', '?'))[:60]}"
    return None


def _members(config: Any, names: Mapping[str, str]) -> dict[str, frozenset[int]]:
    """Gloo's default group has no name there: it stands for the only group whose ranks nobody else tells."""
    told: dict[str, frozenset[int]] = {}
    if not isinstance(config, dict):
        return told
    for name, value in config.items():
        ranks = _ranks(value.get("ranks")) if isinstance(value, dict) else frozenset()
        unnamed = next(iter(names), "0") if name == "" and len(names) == 1 else str(name)
        if ranks:
            told[names.get(unnamed, unnamed)] = ranks
    return told


def _ranks(value: Any) -> frozenset[int]:
    """`"[0, 1]"`, as the dumps have it, or a list."""
    if isinstance(value, str) and len(value) < 1 << 20:
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return frozenset()
    return frozenset(int(one) for one in value if _is_count(one)) if isinstance(value, (list, tuple)) else frozenset()
