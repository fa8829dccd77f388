"""What each request of the kernel comes to on the folder below: bytes for its answer, or an OSError."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from tests.faulty_fs import wire
from tests.faulty_fs.locks import SharedLocks
from tests.faulty_fs.nodes import Handle, Nodes

UNIT_BYTES = 512
"""What O_DIRECT wants to be aligned to: the least that disks ask for."""


@dataclass(slots=True)
class Request:
    op: wire.Op
    unique: int
    node: int
    body: memoryview


@dataclass(slots=True)
class Passthrough:
    nodes: Nodes
    locks: SharedLocks
    view: int
    cache_s: float
    writeback: bool

    def answer(self, request: Request, *, short_bytes: int | None) -> bytes:
        return _VERBS[request.op](self, request, short_bytes)

    def lookup(self, request: Request, _: int | None) -> bytes:
        try:
            return self._entry(request.node, _name(request.body))
        except FileNotFoundError:
            if not self.cache_s:
                raise
            # Node 0 says: not there, and don't ask again soon.
            return self._entry_out(0) + bytes(wire.ATTR.size)

    def _entry(self, parent: int, name: str) -> bytes:
        node, status = self.nodes.look_up(parent, name)
        return self._entry_out(node) + wire.attributes(status)

    def _entry_out(self, node: int) -> bytes:
        whole_s, rest_ns = self._split()
        return wire.ENTRY.pack(node, 0, whole_s, whole_s, rest_ns, rest_ns)

    def _split(self) -> tuple[int, int]:
        return int(self.cache_s), int(self.cache_s % 1 * 1e9)

    def _attributes(self, status: os.stat_result) -> bytes:
        whole_s, rest_ns = self._split()
        return wire.ATTR_OUT.pack(whole_s, rest_ns, 0) + wire.attributes(status)

    def getattr(self, request: Request, _: int | None) -> bytes:
        flags, _dummy, handle = wire.GETATTR.unpack_from(request.body)
        by_handle = flags & wire.GETATTR_BY_HANDLE
        descriptor = self.nodes.handle(handle).descriptor if by_handle else self.nodes.descriptor(request.node)
        return self._attributes(os.fstat(descriptor))

    def setattr(self, request: Request, _: int | None) -> bytes:
        fields = wire.SETATTR.unpack_from(request.body)
        valid, handle, size = wire.Set(fields[0]), fields[2], fields[3]
        path = self.nodes.path(request.node)
        if valid & wire.Set.SIZE:
            os.truncate(self.nodes.handle(handle).descriptor if valid & wire.Set.FH else path, size)
        if valid & wire.Set.MODE:
            os.chmod(path, stat.S_IMODE(fields[11]))  # noqa: PTH101 a magic link, not a path to reason about
        if valid & (wire.Set.ATIME | wire.Set.MTIME):
            os.utime(path)  # nobody here asks for any other time than now
        return self._attributes(os.fstat(self.nodes.descriptor(request.node)))

    def mkdir(self, request: Request, _: int | None) -> bytes:
        mode, _umask = wire.MKDIR.unpack_from(request.body)
        name = _name(request.body[wire.MKDIR.size :])
        os.mkdir(name, mode, dir_fd=self.nodes.descriptor(request.node))
        return self._entry(request.node, name)

    def unlink(self, request: Request, _: int | None) -> bytes:
        os.unlink(_name(request.body), dir_fd=self.nodes.descriptor(request.node))
        return b""

    def rmdir(self, request: Request, _: int | None) -> bytes:
        os.rmdir(_name(request.body), dir_fd=self.nodes.descriptor(request.node))
        return b""

    def rename(self, request: Request, _: int | None) -> bytes:
        (folder,) = wire.RENAME.unpack_from(request.body)
        return self._rename(request, folder, request.body[wire.RENAME.size :])

    def rename2(self, request: Request, _: int | None) -> bytes:
        folder, flags, _padding = wire.RENAME2.unpack_from(request.body)
        if flags:  # "but not over another" is more than most network file systems can do
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return self._rename(request, folder, request.body[wire.RENAME2.size :])

    def _rename(self, request: Request, folder: int, names: memoryview) -> bytes:
        old, new = bytes(names).split(b"\0")[:2]
        source, target = self.nodes.descriptor(request.node), self.nodes.descriptor(folder)
        os.replace(old, new, src_dir_fd=source, dst_dir_fd=target)
        return b""

    def link(self, request: Request, _: int | None) -> bytes:
        (old,) = wire.LINK.unpack_from(request.body)
        name = _name(request.body[wire.LINK.size :])
        os.link(self.nodes.path(old), name, dst_dir_fd=self.nodes.descriptor(request.node), follow_symlinks=True)
        return self._entry(request.node, name)

    def open(self, request: Request, _: int | None) -> bytes:
        flags, _more = wire.OPEN.unpack_from(request.body)
        backing = self._flags(flags) & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        handle = self.nodes.open(self.nodes.path(request.node), backing, direct=bool(flags & os.O_DIRECT))
        return wire.OPEN_OUT.pack(handle, 0, 0)

    def create(self, request: Request, _: int | None) -> bytes:
        flags, mode, _umask, _more = wire.CREATE.unpack_from(request.body)
        name = _name(request.body[wire.CREATE.size :])
        parent = self.nodes.descriptor(request.node)
        descriptor = os.open(name, self._flags(flags) | os.O_CREAT, mode, dir_fd=parent)
        handle = self.nodes.keep(Handle(descriptor, bool(flags & os.O_DIRECT)))
        return self._entry(request.node, name) + wire.OPEN_OUT.pack(handle, 0, 0)

    def _flags(self, flags: int) -> int:
        flags = (flags & ~os.O_DIRECT) | os.O_CLOEXEC
        if self.writeback:  # the kernel reads what it writes only a part of, and knows where the end is
            flags &= ~os.O_APPEND
            if flags & os.O_ACCMODE == os.O_WRONLY:
                flags = (flags & ~os.O_ACCMODE) | os.O_RDWR
        return flags

    def read(self, request: Request, _: int | None) -> bytes:
        number, offset, size, *_rest = wire.READ.unpack_from(request.body)
        handle = self.nodes.handle(number)
        _aligned(handle, offset, size)
        return os.pread(handle.descriptor, size, offset)

    def write(self, request: Request, short_bytes: int | None) -> bytes:
        number, offset, size, *_rest = wire.WRITE.unpack_from(request.body)
        handle = self.nodes.handle(number)
        _aligned(handle, offset, size)
        data = request.body[wire.WRITE.size :][: size if short_bytes is None else min(size, short_bytes)]
        return wire.WRITE_OUT.pack(os.pwrite(handle.descriptor, data, offset), 0)

    def statfs(self, request: Request, _: int | None) -> bytes:
        found = os.statvfs(self.nodes.top)
        return wire.STATFS_OUT.pack(
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
            found.f_bsize,
            found.f_namemax,
            found.f_frsize,
            0,
        )

    def release(self, request: Request, _: int | None) -> bytes:
        number, _flags, release_flags, owner = wire.RELEASE.unpack_from(request.body)
        if release_flags & wire.RELEASE_UNLOCKS:
            inode = os.fstat(self.nodes.handle(number).descriptor).st_ino
            self.locks.take(inode, (self.view, owner), fcntl.F_UNLCK)
        self.nodes.close(number)
        return b""

    def flush(self, request: Request, _: int | None) -> bytes:
        return b""

    def fsync(self, request: Request, _: int | None) -> bytes:
        number, *_rest = wire.FSYNC.unpack_from(request.body)
        os.fsync(self.nodes.handle(number).descriptor)
        return b""

    def opendir(self, request: Request, _: int | None) -> bytes:
        descriptor = os.open(self.nodes.path(request.node), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        entries = [(".", 1, stat.S_IFDIR >> 12), ("..", 1, stat.S_IFDIR >> 12)]
        with os.scandir(descriptor) as found:
            entries += [
                (each.name, each.inode(), stat.S_IFMT(each.stat(follow_symlinks=False).st_mode) >> 12) for each in found
            ]
        return wire.OPEN_OUT.pack(self.nodes.keep(Handle(descriptor, direct=False, entries=entries)), 0, 0)

    def readdir(self, request: Request, _: int | None) -> bytes:
        number, offset, size, *_rest = wire.READ.unpack_from(request.body)
        answer = b""
        for place, (name, inode, kind) in enumerate((self.nodes.handle(number).entries or [])[offset:], offset + 1):
            entry = wire.directory_entry(place, inode, os.fsencode(name), kind)
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer

    def lock(self, request: Request, _: int | None) -> bytes:
        number, owner, _start, _end, kind, _pid, flags, _padding = wire.LOCK.unpack_from(request.body)
        if not flags & wire.LOCK_IS_FLOCK:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        inode = os.fstat(self.nodes.handle(number).descriptor).st_ino
        if not self.locks.take(inode, (self.view, owner), kind):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return b""

    def fallocate(self, request: Request, _: int | None) -> bytes:
        number, offset, length, mode, _padding = wire.FALLOCATE.unpack_from(request.body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        os.posix_fallocate(self.nodes.handle(number).descriptor, offset, length)
        return b""


def _name(raw: memoryview) -> str:
    return wire.text_of(bytes(raw).split(b"\0", 1)[0])


def _aligned(handle: Handle, offset: int, size: int) -> None:
    if handle.direct and (offset % UNIT_BYTES or size % UNIT_BYTES):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


_VERBS: dict[wire.Op, Callable[[Passthrough, Request, int | None], bytes]] = {
    wire.Op.LOOKUP: Passthrough.lookup,
    wire.Op.GETATTR: Passthrough.getattr,
    wire.Op.SETATTR: Passthrough.setattr,
    wire.Op.MKDIR: Passthrough.mkdir,
    wire.Op.UNLINK: Passthrough.unlink,
    wire.Op.RMDIR: Passthrough.rmdir,
    wire.Op.RENAME: Passthrough.rename,
    wire.Op.RENAME2: Passthrough.rename2,
    wire.Op.LINK: Passthrough.link,
    wire.Op.OPEN: Passthrough.open,
    wire.Op.CREATE: Passthrough.create,
    wire.Op.READ: Passthrough.read,
    wire.Op.WRITE: Passthrough.write,
    wire.Op.STATFS: Passthrough.statfs,
    wire.Op.RELEASE: Passthrough.release,
    wire.Op.RELEASEDIR: Passthrough.release,
    wire.Op.FLUSH: Passthrough.flush,
    wire.Op.FSYNC: Passthrough.fsync,
    wire.Op.FSYNCDIR: Passthrough.fsync,
    wire.Op.OPENDIR: Passthrough.opendir,
    wire.Op.READDIR: Passthrough.readdir,
    wire.Op.SETLK: Passthrough.lock,
    wire.Op.SETLKW: Passthrough.lock,
    wire.Op.FALLOCATE: Passthrough.fallocate,
}
