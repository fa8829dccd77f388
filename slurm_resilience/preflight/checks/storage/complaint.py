"""What a file system's refusal means, and whose problem it is. Pure.

Another node helps where this one's mount, disk or network is at fault; it never helps against a full file system that
all nodes share, or against permissions.
"""

from __future__ import annotations

import errno

from slurm_resilience.preflight.result import Finding, Problem, fail

_LEAVE_OUT = "leave the node out (--exclude) and tell the admins"

_MEANINGS: dict[int, tuple[Problem, str, str]] = {
    errno.EROFS: (Problem.NODE, "its file system is read-only", f"{_LEAVE_OUT}: kernels mount so after errors"),
    errno.EIO: (Problem.NODE, "the device or the server behind it fails", _LEAVE_OUT),
    errno.ESTALE: (
        Problem.NODE,
        "this node holds on to a folder that its server has forgotten",
        f"{_LEAVE_OUT}: mount anew",
    ),
    errno.ENOTCONN: (Problem.NODE, "the program that provides its file system is dead", f"{_LEAVE_OUT}: mount anew"),
    errno.ETIMEDOUT: (Problem.NODE, "its server doesn't answer", _LEAVE_OUT),
    errno.EHOSTDOWN: (Problem.NODE, "its server is down", _LEAVE_OUT),
    errno.EHOSTUNREACH: (Problem.NODE, "its server can't be reached from here", _LEAVE_OUT),
    errno.ESHUTDOWN: (Problem.NODE, "its server has thrown this node out", _LEAVE_OUT),
    errno.ENODEV: (Problem.NODE, "its device is gone", _LEAVE_OUT),
    errno.ENXIO: (Problem.NODE, "its device is gone", _LEAVE_OUT),
    errno.ENOSPC: (
        Problem.USER,
        "its file system is full",
        "remove what you don't need (checkpoints prune), or move the run",
    ),
    errno.EDQUOT: (
        Problem.USER,
        "your quota is used up",
        "remove what you don't need (checkpoints prune), or ask for more",
    ),
    errno.EACCES: (Problem.USER, "you may not", "name another folder, or have its owner let you write (chmod, chgrp)"),
    errno.EPERM: (Problem.USER, "you may not", "name another folder, or have its owner let you write"),
    errno.ENOENT: (
        Problem.USER,
        "a folder of its path, or what a link leads to, is not there",
        "name a folder that is there",
    ),
    errno.ENOTDIR: (Problem.USER, "a part of its path is a file", "name a folder"),
    errno.ELOOP: (Problem.USER, "links lead in a circle", "name a folder without links"),
    errno.ENAMETOOLONG: (Problem.USER, "its name is too long", "name a folder with a shorter path"),
    errno.EFBIG: (Problem.USER, "files may not become so large", "raise `ulimit -f`"),
}


def complaint(error: OSError, sentence: str) -> Finding:
    """`sentence` names the thing and what can't be done: `/scratch/x can't be written to`."""
    if error.errno in _MEANINGS:
        problem, meaning, remedy = _MEANINGS[error.errno]
        return fail(problem, f"{sentence}: {meaning} ({error.strerror})", remedy, errno=errno.errorcode[error.errno])
    name = errno.errorcode.get(error.errno or 0, str(error.errno))
    return fail(Problem.NODE, f"{sentence}: {error.strerror or error}", _LEAVE_OUT, errno=name)
