"""The bytes of a source, in order, none of them handed on before it is known to be what was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slurm_resilience.checkpoint.tiers.contents import Contents, NotAsVouched, Watch
from slurm_resilience.checkpoint.tiers.source import Source
from slurm_resilience.checkpoint.tiers.transit import PIECE_BYTES, Transit
from slurm_resilience.errors import CheckpointDamaged


def watched(source: Source, contents: Contents, *, start: int = 0, transit: Transit) -> Iterator[memoryview]:
    """The pieces of `source` from `start` on. A piece is good until the next is asked for.

    A span that is longer than a piece is proven only with its last one: what is made of the pieces must not get its
    final name before the end is reached. Raises CheckpointDamaged, OSError and Interrupted.
    """
    size_bytes = source.size_bytes()
    if size_bytes != contents.size_bytes:
        raise CheckpointDamaged(Path(source.name), f"it has {size_bytes} bytes, {contents.size_bytes} were written")
    watch = Watch(contents, start)
    scratch = memoryview(bytearray(min(PIECE_BYTES, max(contents.size_bytes, 1))))
    offset = start
    transit.check()
    while offset < contents.size_bytes:
        count = source.read_into(offset, scratch[: contents.size_bytes - offset])
        if count == 0:
            raise CheckpointDamaged(Path(source.name), "it became shorter while it was read")
        piece = scratch[:count]
        try:
            watch.see(piece)
        except NotAsVouched as error:
            raise CheckpointDamaged(Path(source.name), str(error)) from error
        yield piece
        offset += count
        transit.passed(count)
