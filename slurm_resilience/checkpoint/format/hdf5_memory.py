"""HDF5 without a file: a part's head in memory, which HDF5 takes for the whole part."""

from __future__ import annotations

from h5py import h5f, h5fd, h5p

from slurm_resilience.checkpoint.format.part_format import STATE_GROUP


class HeadMemory:
    """What HDF5 takes for its file: it holds the head, reads as zeros behind it, and lets writes there go."""

    def __init__(self, head: bytearray, size: int, *, growing: bool) -> None:
        self.head = head
        self.size = size
        self._growing = growing
        self._position = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self.size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:
        target = memoryview(buffer)  # older h5py hands over one of Cython's, which takes no slices of bytes
        piece = self.head[self._position : self._position + len(target)]
        target[: len(piece)] = piece
        target[len(piece) :] = bytes(len(target) - len(piece))  # HDF5 reads ahead of what it needs
        self._position += len(target)
        return len(target)

    def write(self, data: bytes) -> int:
        end = self._position + len(data)
        if self._growing and end > len(self.head):
            self.head.extend(bytes(end - len(self.head)))
        kept = max(0, min(end, len(self.head)) - self._position)
        self.head[self._position : self._position + kept] = bytes(data)[:kept]
        self._position = end
        self.size = max(self.size, end)
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        self.size = self._position if size is None else size
        if self._growing and self.size > len(self.head):
            self.head.extend(bytes(self.size - len(self.head)))
        return self.size

    def flush(self) -> None:
        pass


def access_to(memory: HeadMemory, *, aligned_from_bytes: int = 1, alignment_bytes: int = 1) -> h5p.PropFAID:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fileobj_driver(h5fd.fileobj_driver, memory)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_V18)  # every HDF5 since 2008 reads it
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_alignment(aligned_from_bytes, alignment_bytes)
    return access


def link_to(name: str) -> bytes:
    """The dataset's place in the file."""
    return f"{STATE_GROUP}/{name}".encode()
