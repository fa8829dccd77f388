"""A stand-in for the module pyslurm over a FakeSlurm: what we use of it, and the traps beside it.

After pyslurm 25.11.2's source, and what a build of it did with a Slurm 24.11.5 (docs/pyslurm.md). Nothing of it is
copied: pyslurm is GPL-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from slurm_resilience.command import Completed
from slurm_resilience.errors import SlurmError, SlurmUnavailable
from slurm_resilience.slurm.client import JobRecord, JobRef
from slurm_resilience.slurm.pyslurm_client import reply
from tests.faults.fake_slurm import FakeSlurm

NO_VAL, INFINITE = 0xFFFFFFFE, 0xFFFFFFFF
UNREACHABLE, INVALID_JOB_ID, PENDING, DISABLED = 1800, 2017, 2024, 2037
_NUMBERS = {"pending execution": PENDING, "Invalid job id": INVALID_JOB_ID, "disabled": DISABLED}


class RPCError(Exception):
    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno


@dataclass
class FakePyslurm:
    """Stands for the module: its instances have what the module has."""

    slurm: FakeSlurm
    __version__: str = "25.11.2"
    RPCError: type[RPCError] = RPCError
    errno: int = 0
    """What an earlier call has left behind: nobody clears it."""
    raw: dict[str, object] = field(default_factory=dict)
    """Members of jobs that are not what the FakeSlurm would say."""
    called: list[str] = field(default_factory=list)

    @property
    def Job(self) -> JobFactory:  # noqa: N802 # as pyslurm calls it
        return JobFactory(self)

    @property
    def Jobs(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(load=self._load_jobs)

    def _load_jobs(self) -> dict[int, SimpleNamespace]:
        """Under the array's number there is its last element, and no other."""
        return {int(ref.split("_")[0]): self.loaded(record) for ref, record in self.slurm.jobs.items()}

    def reference(self, number: int) -> JobRef:
        """The job of a number: of an array's number, its last element."""
        elements = [ref for ref in self.slurm.jobs if ref.split("_")[0] == str(number)]
        return JobRef(elements[-1] if elements else str(number))

    def asked(self, question: Callable[[], object]) -> object:
        try:
            return question()
        except SlurmError as error:
            numbers = [number for words, number in _NUMBERS.items() if words in str(error)]
            self.errno = UNREACHABLE if isinstance(error, SlurmUnavailable) else numbers[0]
            raise RPCError(self.errno, str(error)) from error

    def loaded(self, record: JobRecord) -> SimpleNamespace:
        array, _, element = record.job.partition("_")
        members: dict[str, object] = {
            "id": int(array),
            "array_id": int(array) if element else None,
            "array_task_id": int(element or 0) or None,  # of element 0 too
            "state": "COMPLETING" if record.completing else record.state.value,
            "state_reason": record.reason,
            "priority": 0 if record.held else 1,
            "requeue_count": record.restarts,
            "is_requeueable": record.requeue,
            "is_batch_job": record.batch,
            "start_time": _seconds(record.start_s),
            "end_time": _seconds(record.end_s),
            "preempt_time": _seconds(record.preempted_s),
            "partition": record.partition or None,
            "allocated_nodes": record.nodes or None,
            "batch_host": record.batch_host or None,
            "exit_code": (record.exit_code or 0) % 128,
            "exit_code_signal": record.exit_signal,
            "qos": record.qos or None,
            "dependencies": _dependencies(record.dependency),
            "comment": record.comment or None,
        }
        return SimpleNamespace(**(members | self.raw))

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None) -> Completed:
        """A runner: the child, without a process."""
        return Completed(
            tuple(argv), 0, f"libslurm: a word of its own\n{reply(argv[-2], argv[-1], lambda: self)}\n", ""
        )


@dataclass
class JobFactory:
    """`pyslurm.Job`: a class there, with a static method."""

    module: FakePyslurm

    def __call__(self, number: int) -> Job:
        return Job(self.module, number)

    def load(self, number: int) -> SimpleNamespace:
        self.module.called.append("load")
        record = self.module.asked(lambda: self.module.slurm.job(self.module.reference(number)))
        if not isinstance(record, JobRecord):
            raise RPCError(INVALID_JOB_ID, "Invalid job id specified")
        return self.module.loaded(record)


@dataclass
class Job:
    module: FakePyslurm
    id: int

    def requeue(self, hold: bool = False) -> None:
        self.module.called.append(f"requeue hold={hold}")
        slurm = self.module.slurm
        self.module.asked(lambda: (slurm.requeue_hold if hold else slurm.requeue)(self.module.reference(self.id)))

    def hold(self, mode: str | None = None) -> None:
        """The administrator's hold; asked for the user's, pyslurm 25.11 writes through a null pointer."""
        self.module.called.append(f"hold mode={mode}")
        if mode == "user":
            raise SystemExit(139)
        ref = self.module.reference(self.id)
        self.module.slurm.jobs[ref] = replace(self.module.slurm.jobs[ref], held=True, reason="JobHeldAdmin")

    def send_signal(self, signal: str | int, steps: str = "children", hurry: bool = False) -> None:
        """What libslurm returns is not looked at, and errno may be an older one."""
        self.module.called.append(f"send_signal {signal} to {steps}")
        if self.module.errno:
            raise RPCError(self.module.errno, "what an earlier call has met")

    def cancel(self) -> None:
        self.send_signal(9)


def _seconds(time_s: float | None) -> int | None:
    """0, as anywhere in Slurm, is no time."""
    return int(time_s) if time_s else None


def _dependencies(text: str) -> dict[str, object] | None:
    """As pyslurm takes `afterany:7(unfulfilled),singleton(unfulfilled)` apart: without the second."""
    if not text:
        return None
    after = {word: jobs.split(":") for word, jobs in re.findall(r"(after\w*):([^,?]+)", text)}
    return {"afterany": [], "singleton": False, "satisfy": "any" if "?" in text else "all"} | after
