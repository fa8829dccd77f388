"""What the kernel's FUSE protocol (version 7.31) looks like: linux/fuse.h, as far as a pass-through needs it."""

from __future__ import annotations

import enum
import os
import struct

MAX_WRITE_BYTES = 1 << 20
REQUEST_BYTES = MAX_WRITE_BYTES + 4096

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
INIT_IN = struct.Struct("<IIII")
INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
ENTRY = struct.Struct("<QQQQII")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
ATTR_OUT = struct.Struct("<QII")
GETATTR = struct.Struct("<IIQ")
SETATTR = struct.Struct("<IIQQQQQQIIIIIIII")
MKDIR = struct.Struct("<II")
RENAME = struct.Struct("<Q")
RENAME2 = struct.Struct("<QII")
LINK = struct.Struct("<Q")
OPEN = struct.Struct("<II")
CREATE = struct.Struct("<IIII")
OPEN_OUT = struct.Struct("<QIi")
RELEASE = struct.Struct("<QIIQ")
READ = struct.Struct("<QQIIQII")
WRITE = struct.Struct("<QQIIQII")
WRITE_OUT = struct.Struct("<II")
STATFS_OUT = struct.Struct("<QQQQQIIII24x")
FSYNC = struct.Struct("<QII")
LOCK = struct.Struct("<QQQQIIII")
FALLOCATE = struct.Struct("<QQQII")
FORGET = struct.Struct("<Q")
FORGET_MANY = struct.Struct("<II")
FORGET_ONE = struct.Struct("<QQ")
INTERRUPT = struct.Struct("<Q")
DIRENT = struct.Struct("<QQII")


class Op(enum.IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    SETLK = 32
    SETLKW = 33
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45


class Can(enum.IntFlag):
    """What is negotiated at INIT."""

    ASYNC_READ = 1 << 0
    ATOMIC_O_TRUNC = 1 << 3
    BIG_WRITES = 1 << 5
    FLOCK_LOCKS = 1 << 10
    WRITEBACK_CACHE = 1 << 16
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22


class Set(enum.IntFlag):
    """Which fields of SETATTR count."""

    MODE = 1 << 0
    UID = 1 << 1
    GID = 1 << 2
    SIZE = 1 << 3
    ATIME = 1 << 4
    MTIME = 1 << 5
    FH = 1 << 6
    ATIME_NOW = 1 << 7
    MTIME_NOW = 1 << 8


GETATTR_BY_HANDLE = 1
RELEASE_UNLOCKS = 1 << 1
LOCK_IS_FLOCK = 1


def attributes(status: os.stat_result) -> bytes:
    times_s = [status.st_atime_ns // 10**9, status.st_mtime_ns // 10**9, status.st_ctime_ns // 10**9]
    rest_ns = [status.st_atime_ns % 10**9, status.st_mtime_ns % 10**9, status.st_ctime_ns % 10**9]
    return ATTR.pack(
        status.st_ino,
        status.st_size,
        status.st_blocks,
        *times_s,
        *rest_ns,
        status.st_mode,
        status.st_nlink,
        status.st_uid,
        status.st_gid,
        0,
        4096,
        0,
    )


def directory_entry(offset: int, inode: int, name: bytes, kind: int) -> bytes:
    raw = DIRENT.pack(inode, offset, len(name), kind) + name
    return raw + bytes(-len(raw) % 8)


def text_of(raw: bytes) -> str:
    return os.fsdecode(raw)
