"""Which calls of a faulty disk go wrong, and how. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

OPERATIONS = frozenset(
    "lookup open read write truncate preallocate flush fsync fsyncdir rename link unlink mkdir rmdir list lock".split()
)
"""`open` also makes files; `flush` is a close that was asked what it thinks; `truncate` also makes files longer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The `nth` call of `operation` from now on, and the `times - 1` after it (0: all of them), go wrong."""

    operation: str
    nth: int = 1
    times: int = 1
    errno: int | None = None
    delay_s: float = 0.0
    """Before the call is done, or refused."""
    hang: bool = False
    """Wait until released, or until whoever waits for the answer is killed."""
    short_bytes: int | None = None
    """A write takes only so much."""
    direct_only: bool = False
    """Only calls on files opened with O_DIRECT count."""
    where: str = ""
    """Only calls on a path that has this in it count."""

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise ValueError(f"no operation of a file system is called {self.operation}")


@dataclass(slots=True)
class Faults:
    """All faults of a disk, with what they have seen. Not safe to be used by several threads at once."""

    by_number: dict[int, Fault] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
    fired: dict[int, int] = field(default_factory=dict)

    def add(self, fault: Fault) -> int:
        number = len(self.seen)
        self.by_number[number] = fault
        self.seen[number] = self.fired[number] = 0
        return number

    def clear(self) -> None:
        self.by_number.clear()

    def meet(self, operation: str, path: str, *, direct: bool = False) -> list[Fault]:
        """Count a call; the faults that hit it, in the order they were added."""
        hit = []
        for number, fault in self.by_number.items():
            if fault.operation != operation or fault.where not in path or (fault.direct_only and not direct):
                continue
            self.seen[number] += 1
            past = self.seen[number] - fault.nth
            if past >= 0 and (fault.times == 0 or past < fault.times):
                self.fired[number] += 1
                hit.append(fault)
        return hit
