"""All that squeue shows of what one job asked for, in columns wide enough for any value.

A width counts bytes (measured on 22.05.8), so that each value is where it should be, newlines and all; one that fills
its column is refused by name. Blanks at the end of a value can't be seen.
"""

from __future__ import annotations

from slurm_resilience.errors import SlurmUnparsable

_COLUMNS = (
    ("JobID", 20),
    ("JobArrayID", 60),
    ("Partition", 800),
    ("Account", 400),
    ("QOS", 400),
    ("Reservation", 1000),
    ("TimeLimit", 30),
    ("MinTime", 30),
    ("NumNodes", 30),
    ("MaxNodes", 30),
    ("NumTasks", 20),
    ("NTPerNode", 20),
    ("NTPerSocket", 20),
    ("NTPerCore", 20),
    ("cpus-per-task", 20),
    ("MinCPUs", 20),
    ("MinTmpDisk", 40),
    ("mem-per-tres", 400),
    ("cpus-per-tres", 400),
    ("tres-per-node", 800),
    ("tres-per-job", 800),
    ("tres-per-socket", 800),
    ("tres-per-task", 800),
    ("tres-bind", 400),
    ("tres-freq", 400),
    ("OverSubscribe", 20),
    ("Feature", 2000),
    ("Prefer", 2000),
    ("Licenses", 2000),
    ("ReqNodes", 4000),
    ("Contiguous", 10),
    ("CoreSpec", 20),
    ("Sockets", 20),
    ("Cores", 20),
    ("Threads", 20),
    ("ReqSwitch", 20),
    ("Wait4Switch", 40),
    ("Requeue", 10),
    ("Nice", 20),
    ("Profile", 200),
    ("WCKey", 400),
    ("Container", 4200),
    ("Name", 1100),
    ("WorkDir", 4200),
    ("StdOut", 4200),
    ("StdErr", 4200),
    ("StdIn", 4200),
    ("Comment", 1100),
)
FORMAT = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
_LENGTH = sum(width for _, width in _COLUMNS)
NOT_SET = frozenset({"", "(null)", "N/A", "n/a", "*", "None", "NotSet"})


def read_values(job: str, answer: str) -> dict[str, str]:
    """The columns of squeue's answer to FORMAT, by name; what isn't set is empty."""
    raw = answer.encode(errors="surrogateescape")
    if len(raw) not in (_LENGTH, _LENGTH + 1) or "\ufffd" in answer:
        raise SlurmUnparsable(f"what squeue says of job {job} is not one record in columns of {_LENGTH} bytes")
    values: dict[str, str] = {}
    at = 0
    for name, width in _COLUMNS:
        value = raw[at : at + width]
        at += width
        if value[-1:] != b" ":
            raise SlurmUnparsable(f"the {name} of job {job} is too long to be read: {_begin(value)}")
        try:
            text = value.decode().rstrip(" ")
        except UnicodeDecodeError as error:
            raise SlurmUnparsable(f"the {name} of job {job} is no UTF-8: {_begin(value)}") from error
        values[name] = "" if text in NOT_SET else text
    return values


def _begin(value: bytes) -> str:
    return repr(value[:100].decode(errors="replace"))
