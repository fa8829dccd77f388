"""Slurm by pyslurm, where a user asks for it: the one file that imports it, in a process of its own.

Every question is a child: `python -m slurm_resilience.slurm.pyslurm_client VERB JOB`. pyslurm holds the interpreter's
lock for as long as libslurm waits (20 s for a controller that is down, and no other thread runs meanwhile), waits for a
minute where there is no slurm.conf and then ends the whole process, and some of its calls crash. A child can be killed
in time, a thread can't. What Slurm's commands do more faithfully is theirs: the table is in docs/pyslurm.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandError, SlurmRejected, SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.client import (
    JobRecord,
    JobRef,
    JobState,
    NodeRecord,
    PartitionRecord,
    PastLife,
    QosRecord,
    SlurmClient,
    SlurmConfiguration,
    Submission,
)

Runner = Callable[..., Completed]
Said = Mapping[str, Any]

_MARK = "pyslurm answers: "  # libslurm writes to the same terminal when it likes
_CONTROLLERS_WORD = range(2000, 3000)
_STANDBY = (2027, 2131)
"""ESLURM_IN_STANDBY_MODE, ESLURM_IN_STANDBY_USE_BACKUP: said by a controller that isn't in charge."""
_NO_VAL = 0xFFFFFFFE
"""Slurm's "no value"; one more is its "infinite". Of a time, both mean that there is none."""
_LIVING = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    # What Slurm may say instead of RUNNING: the job has its nodes.
    **dict.fromkeys(("CONFIGURING", "RESIZING", "SIGNALING", "STOPPED"), JobState.RUNNING),
}
_MEMBERS = (
    *("state_reason", "priority", "requeue_count", "is_requeueable", "is_batch_job"),
    *("start_time", "end_time", "preempt_time"),
    *("partition", "allocated_nodes", "batch_host", "qos", "comment"),
)


class PySlurmClient:
    """A SlurmClient (see client.py). `commands` does what pyslurm can't, and everything once pyslurm has failed.

    `say` is told once why. What pyslurm failed at may be done: that is SlurmUnavailable, and the next is the commands'.
    """

    def __init__(
        self,
        commands: SlurmClient,
        *,
        environment: Mapping[str, str] | None = None,
        say: Callable[[str], None],
        timeout_s: float = 25.0,
        runner: Runner = run,
    ) -> None:
        self._commands = commands
        self._environment = environment
        self._say = say
        self._timeout_s = timeout_s
        self._runner = runner
        self._given_up = False

    def job(self, job: JobRef) -> JobRecord | None:
        match self._ask("job", job):
            case None:
                return self._commands.job(job)
            case {"job": None}:
                return None
            case {"job": dict(values)}:
                return _record(job, values)
            case said:
                raise SlurmUnparsable(f"pyslurm's answer about job {job} can't be read: {str(said)[:200]}")

    def requeue(self, job: JobRef) -> None:
        if self._ask("requeue", job) is None:
            self._commands.requeue(job)

    def requeue_hold(self, job: JobRef) -> None:
        if self._ask("requeue_hold", job) is None:
            self._commands.requeue_hold(job)

    def _ask(self, verb: str, job: JobRef) -> Said | None:
        """None: nothing was done, and it is for the commands."""
        # pyslurm takes a number, and that of an array's last element is the array's.
        if self._given_up or not (job.isascii() and job.isdigit()):
            return None
        try:
            done = ask_child(self._runner, verb, job, self._environment, self._timeout_s)
        except CommandError as error:
            raise self._failed(f"gave no answer about job {job}: {error}") from error
        said = said_by(done)
        match said:
            case None:
                raise self._failed(f"ended without an answer about job {job}: {done.complaint}")
            case {"unfit": str(why)}:
                self._give_up(why)
                return None
            case {"elsewhere": _}:
                return None
            case {"unavailable": str(why)}:
                raise SlurmUnavailable(f"Slurm's controller does not answer: {why} ({verb} of job {job})")
            case {"rejected": str(why)}:
                raise SlurmRejected(f"Slurm refused {verb} of job {job}: {why}")
            case {"unparsable": str(why)}:
                raise SlurmUnparsable(f"pyslurm can't read Slurm's answer about job {job}: {why}")
        return said

    def _failed(self, how: str) -> SlurmUnavailable:
        self._give_up(how)
        return SlurmUnavailable(f"pyslurm {how}")

    def _give_up(self, why: str) -> None:
        self._given_up = True
        self._say(f"Slurm's commands are used from now on: pyslurm {why}")

    # The rest is the commands' in every version; docs/pyslurm.md says why of each.

    def my_jobs(self) -> tuple[JobRecord, ...]:
        return self._commands.my_jobs()

    def lives(self, job: JobRef) -> tuple[PastLife, ...] | None:
        return self._commands.lives(job)

    def configuration(self) -> SlurmConfiguration:
        return self._commands.configuration()

    def partition(self, name: str) -> PartitionRecord:
        return self._commands.partition(name)

    def qos(self, name: str) -> QosRecord | None:
        return self._commands.qos(name)

    def nodes(self, names: str) -> tuple[NodeRecord, ...]:
        return self._commands.nodes(names)

    def answers(self) -> bool:
        return self._commands.answers()

    def cancel(self, job: JobRef) -> None:
        self._commands.cancel(job)

    def signal(self, job: JobRef, name: str, *, to: str) -> None:
        self._commands.signal(job, name, to=to)

    def exclude_nodes(self, job: JobRef, nodes: Collection[str]) -> None:
        self._commands.exclude_nodes(job, nodes)

    def start_now(self, job: JobRef) -> None:
        self._commands.start_now(job)

    def depend_on(self, job: JobRef, dependency: str) -> None:
        self._commands.depend_on(job, dependency)

    def may_requeue(self, job: JobRef, allowed: bool) -> None:
        self._commands.may_requeue(job, allowed)

    def batch_script(self, job: JobRef) -> str:
        return self._commands.batch_script(job)

    def asked_for(self, job: JobRef) -> tuple[str, ...]:
        return self._commands.asked_for(job)

    def submit(self, submission: Submission) -> JobRef:
        return self._commands.submit(submission)


def ask_child(runner: Runner, verb: str, job: str, env: Mapping[str, str] | None, timeout_s: float) -> Completed:
    """Raises CommandTimedOut, the child being killed, and CommandMissing."""
    return runner([sys.executable, "-m", __name__, verb, job], timeout_s=timeout_s, env=env)


def said_by(done: Completed) -> Said | None:
    """None: it ended without an answer."""
    lines = [line for line in done.out.splitlines() if line.startswith(_MARK)]
    if done.code != 0 or not lines:
        return None
    return dict(json.loads(lines[-1].removeprefix(_MARK)))


def _record(job: JobRef, values: Said) -> JobRecord:
    state, restarts = _LIVING[values["state"]], values["requeue_count"]
    if not isinstance(restarts, int):
        raise SlurmUnparsable(f"pyslurm knows no restart count of job {job}: {restarts!r}")
    return JobRecord(
        job=job,
        state=state,
        completing=False,
        held=state is JobState.PENDING and values["priority"] == 0,
        reason=values["state_reason"] or "",
        restarts=restarts,
        requeue=values["is_requeueable"],
        batch=values["is_batch_job"],
        start_s=_time(values["start_time"]),
        end_s=_time(values["end_time"]),
        preempted_s=_time(values["preempt_time"]),
        partition=values["partition"] or "",
        nodes=values["allocated_nodes"] or "",
        batch_host=values["batch_host"] or "",
        # What an earlier life left with is not told: pyslurm makes 15 of 143, and 0 of 128.
        exit_code=0 if restarts == 0 else None,
        exit_signal=0 if restarts == 0 else None,
        qos=values["qos"] or "",
        comment=values["comment"] or "",
    )


def _time(value: object) -> float | None:
    """None for 0, "no value" and "infinite", which versions hand on as they are; a requeue adds the latter to now."""
    if value is None or (isinstance(value, int) and not 0 < value < _NO_VAL):
        return None
    if not isinstance(value, int):
        raise SlurmUnparsable(f"pyslurm's time is no number of seconds: {value!r}")
    return float(value)


# From here on: what the child does.


def reply(verb: str, job: str, load: Callable[[], Any]) -> str:
    """What pyslurm, as `load` imports it, answers: one line."""
    return _MARK + json.dumps(_answer(verb, job, load))


def _load() -> Any:
    import pyslurm  # GPL-2.0, and the user's own choice: here and nowhere else

    return pyslurm


def _answer(verb: str, job: str, load: Callable[[], Any]) -> Said:
    try:
        pyslurm = load()
    except Exception as error:  # noqa: BLE001 # an import that talks to Slurm: ImportError, OSError, RPCError, ...
        return {"unfit": f"can't be loaded ({type(error).__name__}: {error})"}
    version = getattr(pyslurm, "__version__", "of no version")
    try:
        match verb:
            case "version":
                return {"version": str(version)}
            case "job":
                return _job(pyslurm.Job.load(int(job)))
            case "requeue" | "requeue_hold":
                # Never .hold(): it is the administrator's, and mode="user" crashes.
                pyslurm.Job(int(job)).requeue(hold=verb == "requeue_hold")
                return {"done": verb}
            case _:
                return {"unfit": f"knows no verb {verb!r}"}
    except getattr(pyslurm, "RPCError", ()) as error:
        return _refusal(verb, error.errno, str(error))
    except UnicodeDecodeError as error:
        return {"elsewhere": f"a user's own text is no UTF-8 ({error})"}
    except (AttributeError, TypeError) as error:
        return {"unfit": f"{version} is none that we know ({error})"}


def _job(job: Any) -> Said:
    state = str(job.state)
    if state not in _LIVING:
        return {"elsewhere": "of a job that is over pyslurm tells no exit code above 127"}
    if job.array_id is not None:
        return {"elsewhere": "pyslurm has the array's number for its last element"}
    if job.dependencies is not None:
        return {"elsewhere": "pyslurm drops `singleton` from what a job waits for"}
    return {"job": {"state": state} | {name: getattr(job, name) for name in _MEMBERS}}


def _refusal(verb: str, number: object, why: str) -> Said:
    """The one place where pyslurm's errors become ours. A number that we don't know is no word of the controller's."""
    match number:
        case 2017 if verb == "job":  # ESLURM_INVALID_JOB_ID
            return {"job": None}
        case 1005:  # SLURM_PROTOCOL_VERSION_ERROR
            return {"unfit": f"is not for this controller ({why})"}
        case int(known) if known in _CONTROLLERS_WORD and known not in _STANDBY:
            return {"rejected": why}
        case int(known) if known > 0:
            return {"unavailable": why}
        case _ if verb == "job":
            return {"elsewhere": why}
        case _:
            return {"unparsable": why}


if __name__ == "__main__":
    sys.stdout.write(reply(sys.argv[1], sys.argv[2], _load) + "\n")
