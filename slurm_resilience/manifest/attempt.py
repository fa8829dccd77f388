"""Beginning an attempt: the one place where a run changes hands.

Under one hold of the lock: the owner so far is proven gone, the journal gets `attempt started` (from this line on the
ranks of older attempts are fenced), then the lease names us. A crash

* before the line: nothing has happened;
* between line and lease: the lease names an owner older than the newest attempt. It is free: the line is only written
  once that owner is proven gone, and who wrote the line died before it could start anything;
* behind the lease: we are the owner, and dead: the next one finds that out in the usual way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from slurm_resilience.clock import Clock, SystemClock
from slurm_resilience.durable_file import sync_directory
from slurm_resilience.errors import ManifestError, ManifestUnavailable, RunOwned
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import Owner, process_liveness, read_lease, this_process, write_lease
from slurm_resilience.manifest.records import AttemptStarted
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness

_TRIES = 5
_WRITE_AGAIN_AFTER_S = (0.5, 2.0, 6.0)


def begin_attempt(
    run: RunDirectory,
    *,
    mode: str,
    command: Sequence[str],
    job: str | None,
    restart_count: int | None,
    cluster: str | None,
    nodes: str | None,
    liveness_by_slurm: Callable[[Owner], Liveness],
    clock: Clock | None = None,
    journal: Journal | None = None,
) -> int:
    """Own the run: the number of the attempt that has just begun. The run must have been created.

    `liveness_by_slurm` is asked only where the owner's process can't be seen from here; it answers UNKNOWN where Slurm
    doesn't answer or doesn't know. Raises RunOwned, and what `Journal.append` raises.
    """
    clock = clock or SystemClock()
    journal = journal or Journal(run, clock=clock)
    proven_gone: Owner | None = None
    for _ in range(_TRIES):
        with journal.writing() as writer:
            chain = Chain.of(writer.lines())
            owner = live_owner(run, chain)
            if owner is None or owner == proven_gone or _superseded(owner, job, restart_count, cluster):
                number = chain.newest_attempt.number + 1 if chain.newest_attempt else 1
                me = this_process(
                    attempt=number, job=job, restart_count=restart_count, cluster=cluster, taken_s=clock.now_s()
                )
                writer.append(AttemptStarted(number, mode, tuple(command), me.host, job, restart_count, cluster, nodes))
                _write_lease(run, me, clock)
                return number
        # Without the lock: Slurm may take its time to answer. Gone stays gone, so the proof keeps for the next try.
        _prove_gone(run, owner, liveness_by_slurm)
        proven_gone = owner
    raise ManifestUnavailable(f"run {run.path} changed hands {_TRIES} times while this attempt tried to begin")


def _write_lease(run: RunDirectory, me: Owner, clock: Clock) -> None:
    """Stubbornly: the attempt has begun, and if nothing came of it, it would count as one that gained no step."""
    for pause_s in _WRITE_AGAIN_AFTER_S:
        with contextlib.suppress(ManifestUnavailable):
            write_lease(run, me)
            return
        clock.sleep(pause_s)
    write_lease(run, me)


def newer_plan(run: RunDirectory, attempt: int) -> int | None:
    """The newest attempt after this one that has its plan: whoever belongs to this one is a ghost. Raises OSError.

    Opening a folder asks the file server anew; the absence of a file may be remembered for a minute. A plan is written
    right after its attempt has begun, by whoever owns the run then.
    """
    numbers = [int(path.name) for path in run.attempts.iterdir() if path.name.isdigit()]
    return max((n for n in numbers if n > attempt and run.plan(n).exists()), default=None)


def release(run: RunDirectory, attempt: int, *, journal: Journal | None = None) -> None:
    """Attempt `attempt`, whose end is told, owns the run no more. Harmless when it doesn't, and twice.

    Never raises what the file system says: the end in the journal makes the run free as well.
    """
    with contextlib.suppress(ManifestError, OSError), (journal or Journal(run)).writing():
        owner = read_lease(run)
        if owner is not None and owner.attempt == attempt:
            run.lease.unlink(missing_ok=True)
            sync_directory(run.path)


def live_owner(run: RunDirectory, chain: Chain) -> Owner | None:
    """Who owns the run. None: it is free, as the lease or the journal shows.

    Whether the holder is alive is another question.
    """
    newest = chain.newest_attempt
    if newest is None or newest.ended is not None:
        return None
    owner = read_lease(run)
    if owner is None or owner.attempt < newest.number:
        return None
    return owner


def refuse_if_owned(run: RunDirectory, chain: Chain, liveness_by_slurm: Callable[[Owner], Liveness]) -> None:
    """For who must act on a run before an attempt of theirs begins. Raises RunOwned."""
    owner = live_owner(run, chain)
    if owner is not None:
        _prove_gone(run, owner, liveness_by_slurm)


def _superseded(owner: Owner, job: str | None, restart_count: int | None, cluster: str | None) -> bool:
    """Slurm itself has started this job anew: its former life is over, and what still runs of it is fenced."""
    same_job = job is not None and owner.job == job and owner.cluster == cluster
    return same_job and (owner.restart_count or 0) < (restart_count or 0)


def _prove_gone(run: RunDirectory, owner: Owner, liveness_by_slurm: Callable[[Owner], Liveness]) -> None:
    seen = process_liveness(owner)
    if seen is Liveness.UNKNOWN:
        seen = liveness_by_slurm(owner)
    if seen is Liveness.GONE:
        return
    look = f"`ssh {owner.host} ps -p {owner.pid}`"
    if owner.job is not None:
        look += f" and `scontrol show job {owner.job}`"
    if seen is Liveness.ALIVE:
        raise RunOwned(run.path, f"{owner}; it is alive; look with {look}")
    way = f"if it is gone, start with `srun-resilient --take-over`, or remove {run.lease}"
    raise RunOwned(run.path, f"{owner}; nothing proves that it is gone; look with {look}; {way}")
