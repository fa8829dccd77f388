"""The manifest's bytes as lines: what is whole, and what a dead writer left torn behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.errors import ManifestDamaged, ManifestUnsupported
from slurm_resilience.manifest.encoding import NotUnderstood, NotWhatWasWritten, decode
from slurm_resilience.manifest.records import Line, RunCreated


@dataclass(frozen=True, slots=True)
class Text:
    lines: tuple[Line, ...]
    whole_bytes: int
    """Up to here the bytes are lines."""
    torn: bytes
    """What comes behind: nothing, or the beginning of what a writer had no time to finish."""


def parse(path: Path, raw: bytes, *, first_seq: int = 1) -> Text:
    """`raw` as the lines from `first_seq` on. `path` is for the errors only.

    Only the last line may be torn: cut short, or not what its checksum says (a host that lost its power can leave
    the length of a file without its content). Raises ManifestDamaged and ManifestUnsupported.
    """
    lines: list[Line] = []
    start = 0
    while start < len(raw):
        end = raw.find(b"\n", start)
        seq = first_seq + len(lines)
        if end < 0:
            break
        try:
            line = decode(raw[start:end])
        except NotWhatWasWritten as error:
            if end + 1 == len(raw):
                break
            raise ManifestDamaged(path, seq, str(error)) from None
        except NotUnderstood as error:
            raise ManifestUnsupported(f"{path}, line {seq}: {error}") from None
        if line.seq != seq:
            raise ManifestDamaged(path, seq, f"it calls itself line {line.seq}")
        if isinstance(line.record, RunCreated) != (seq == 1):
            raise ManifestDamaged(path, seq, "a run is created in the first line, and only there")
        lines.append(line)
        start = end + 1
    if first_seq == 1 and not lines:  # the first line comes into being with the file: it can't have been torn
        raise ManifestDamaged(path, 1, "the line that creates the run is missing or not what was written")
    return Text(tuple(lines), start, raw[start:])
