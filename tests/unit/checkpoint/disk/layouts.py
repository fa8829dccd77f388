"""Any layout a part may have, with elements for it, and its file made in the most naive way."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from slurm_resilience.checkpoint.disk.image import Image, Region, whole_pages
from slurm_resilience.checkpoint.format.checksum import checksum_of


@dataclass(frozen=True)
class Layout:
    image: Image
    elements: list[bytes]

    def head(self) -> bytearray:
        """Without checksums."""
        return bytearray(b"h") * self.image.checksums_offset + bytearray(
            self.image.head_bytes - self.image.checksums_offset
        )

    def file(self) -> bytes:
        content = bytearray(self.image.file_bytes)
        content[: self.image.head_bytes] = self.head()
        for region, elements in zip(self.image.regions, self.elements, strict=True):
            content[region.offset : region.offset + region.bytes] = elements
            row = self.image.checksums_offset + 16 * region.row
            content[row : row + 16] = checksum_of(elements)
        return bytes(content)

    def memory(self, room: memoryview) -> memoryview:
        """The file without its checksums, in `room`."""
        room[: self.image.head_bytes] = self.head()
        for region, elements in zip(self.image.regions, self.elements, strict=True):
            room[region.offset : region.offset + region.bytes] = elements
        return room


def layout_of(
    sizes: list[int], *, gaps: list[int] | None = None, head_bytes: int = 5000, tail_bytes: int = 0
) -> Layout:
    gaps = gaps or [0] * len(sizes)
    some = random.Random(len(sizes))
    at = whole_pages(head_bytes)
    rows = list(range(len(sizes)))
    some.shuffle(rows)
    regions = []
    for row, size_bytes, gap in zip(rows, sizes, gaps, strict=True):
        at = whole_pages(at + gap) if size_bytes >= 64 else at + gap
        regions.append(Region(row, at, size_bytes))
        at += size_bytes
    # Without regions the head may be all there is, and end in the middle of a page.
    file_bytes = at + tail_bytes if regions or tail_bytes else head_bytes
    image = Image(file_bytes, head_bytes, head_bytes - 16 * len(sizes), tuple(regions))
    return Layout(image, [some.randbytes(size_bytes) for size_bytes in sizes])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    sizes = draw(st.lists(st.one_of(st.integers(1, 70), st.integers(1, 40_000)), max_size=8))
    gaps = [draw(st.sampled_from([0, 0, 1, 8, 4096, 20_000])) for _ in sizes]
    head_bytes = draw(st.integers(max(16 * len(sizes), 1), 9000))
    return layout_of(sizes, gaps=gaps, head_bytes=head_bytes, tail_bytes=draw(st.sampled_from([0, 1, 4096, 9000])))
