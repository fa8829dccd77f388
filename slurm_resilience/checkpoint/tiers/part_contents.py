"""The files that a checkpoint consists of, and what their bytes have to be: read from the verified heads. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from slurm_resilience.checkpoint.format.part_format import Head, HeadChecksum
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.tiers.contents import Contents, Span


def contents_of_parts(parts: Iterable[tuple[PartReceipt, Head]], size_of: Callable[[str], int]) -> dict[str, Contents]:
    """By plain file name: the parts, and the files in their folder that they borrow tensors from.

    Each head is the one that its receipt vouches for. A file that others borrow from may be a part itself: it has to
    be what all of them say. Of one that is no part only what is borrowed is vouched for; `size_of` is asked for its
    size. Raises ValueError for a tensor that doesn't lie in its file.
    """
    # Keyed by what is said, not by who says it: a thousand ranks that borrow one tensor say it once.
    spans: dict[str, dict[tuple[int, int, bytes], Span]] = {}
    sizes: dict[str, int] = {}
    for receipt, head in parts:
        own = PurePosixPath(receipt.file).name
        sizes[own] = receipt.bytes
        vouched = HeadChecksum.parse(receipt.checksum)
        _say(spans, own, Span("its head", 0, vouched.head_bytes, vouched.digest))
        for placed in head.placed:
            dataset = placed.dataset
            span = Span(f"tensor {dataset.name}", placed.offset, dataset.bytes, placed.checksum)
            _say(spans, dataset.file or own, span)
    return {
        name: Contents.of(sizes[name] if name in sizes else size_of(name), said.values())
        for name, said in sorted(spans.items())
    }


def _say(spans: dict[str, dict[tuple[int, int, bytes], Span]], file: str, span: Span) -> None:
    spans.setdefault(file, {}).setdefault((span.offset, span.size_bytes, span.checksum), span)
