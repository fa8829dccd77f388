"""What a writer is told: which file, what lies where in it, and what whoever finishes it needs to know."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from slurm_resilience.checkpoint.disk.image import Image, Region

_VERSION = 1


class NotAJob(ValueError):
    """The text is not what `WriteJob.to_json` of this version makes."""


@dataclass(frozen=True, slots=True)
class WriteJob:
    checkpoint: str
    rank: int
    file: str
    """The final name, relative to the run directory: `checkpoints/<id>/rank-00003.h5`."""
    image: Image
    context: dict[str, Any]
    """Handed through untouched for whoever finishes the job: values that JSON keeps."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.file)
        if path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
            raise ValueError(f"{self.file!r} is not a file in a folder of the run directory")

    def to_json(self) -> bytes:
        image = self.image
        return json.dumps(
            {
                "version": _VERSION,
                "checkpoint": self.checkpoint,
                "rank": self.rank,
                "file": self.file,
                "file_bytes": image.file_bytes,
                "head_bytes": image.head_bytes,
                "checksums_offset": image.checksums_offset,
                "regions": [[region.row, region.offset, region.bytes] for region in image.regions],
                "context": self.context,
            },
            separators=(",", ":"),
        ).encode("ascii")

    @staticmethod
    def from_json(text: bytes) -> WriteJob:
        """Raises NotAJob."""
        try:
            said = json.loads(text)
            _check_version(said["version"])
            image = Image(
                file_bytes=int(said["file_bytes"]),
                head_bytes=int(said["head_bytes"]),
                checksums_offset=int(said["checksums_offset"]),
                regions=tuple(Region(int(row), int(offset), int(size)) for row, offset, size in said["regions"]),
            )
            return WriteJob(
                checkpoint=str(said["checkpoint"]),
                rank=int(said["rank"]),
                file=str(said["file"]),
                image=image,
                context=dict(said["context"]),
            )
        except NotAJob:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise NotAJob(f"it is not a job ({type(error).__name__}: {error})") from error


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise NotAJob(f"it has version {version}, this slurm-resilience knows version {_VERSION}")
