"""An attempt that is over, and by which code srun-resilient leaves after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_resilience.errors import EXIT_FINISHED, EXIT_OWNED, EXIT_PREFLIGHT, EXIT_WILL_GO_ON, EXIT_WILL_NOT_GO_ON
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import AlreadyQueued, Finish, Hold, Requeue, Restart, Stop, Successor, Way
from slurm_resilience.requeue.history import CRASHES
from slurm_resilience.supervisor.deed import Done, NotDone
from slurm_resilience.supervisor.ending import Conclusion


@dataclass(frozen=True, slots=True)
class Past:
    """An attempt that is over."""

    number: int
    conclusion: Conclusion
    code: int | None
    way: Way
    must_leave_s: float | None = None
    """When Slurm will kill us, on the monotonic clock; None: nobody has said so."""
    job_ends_s: float | None = None
    """When the job's time is over, since the epoch; None: no limit known."""

    def exit_code_of_a_stop(self, requeue_exit: Sequence[int]) -> int:
        """The command's own code where it failed and nobody could have started it again; ours where we decided."""
        if self.conclusion.cause is Cause.FENCED:
            return kept_from_slurm(EXIT_OWNED, requeue_exit)
        if self.conclusion.cause is Cause.PREFLIGHT:
            return kept_from_slurm(EXIT_PREFLIGHT, requeue_exit)
        own = self.way is Way.NONE and self.conclusion.cause in CRASHES
        if self.code is None or not own or self.code in (EXIT_FINISHED, EXIT_WILL_GO_ON):
            return kept_from_slurm(EXIT_WILL_NOT_GO_ON, requeue_exit)
        return self.code  # if the site has it queued again for that, it wants it so


def kept_from_slurm(code: int, requeue_exit: Sequence[int]) -> int:
    """`code`, by which a run leaves that is not to go on, or another where Slurm would start the job again for it.

    A site's RequeueExit may name any code: the job would be started and leave again, every few minutes, for ever.
    """
    if code in (EXIT_FINISHED, EXIT_WILL_GO_ON) or code not in requeue_exit:
        return code
    return next((other for other in range(1, 126) if other not in requeue_exit), code)


def leave(past: Past, requeue_exit: Sequence[int], say: Callable[[str], None]) -> int:
    """Says what became of it; returns the code. `requeue_exit`: the codes at which Slurm itself requeues here."""
    number, conclusion = past.number, past.conclusion
    because = conclusion.because
    match conclusion.decision:
        case Finish():
            say(f"the run is finished: {because}")
            return EXIT_FINISHED
        case Requeue() if isinstance(conclusion.outcome, NotDone):
            say(f"attempt {number} ended: {because}; it is not queued again: {conclusion.outcome.why}")
            if conclusion.outcome.final:
                return kept_from_slurm(EXIT_WILL_NOT_GO_ON, requeue_exit)
            return requeue_exit[0] if requeue_exit else EXIT_WILL_GO_ON
        case Requeue():
            say(f"attempt {number} ended: {because}; the job is queued again")
            return EXIT_WILL_GO_ON
        case Successor():
            return _leave_to_a_successor(past, requeue_exit, say)
        case AlreadyQueued():
            say(f"attempt {number} ended: {because}; Slurm starts it again")
            return EXIT_WILL_GO_ON
        case Restart():
            return EXIT_WILL_GO_ON
        case Hold(reason):
            say(f"attempt {number} ended and the run will not go on by itself: {reason}; {conclusion.outcome}")
            ours = EXIT_PREFLIGHT if conclusion.cause is Cause.PREFLIGHT else EXIT_WILL_NOT_GO_ON
            return kept_from_slurm(ours, requeue_exit)
        case Stop(reason):
            say(f"attempt {number} ended and the run will not go on by itself: {reason}")
            return past.exit_code_of_a_stop(requeue_exit)


def _leave_to_a_successor(past: Past, requeue_exit: Sequence[int], say: Callable[[str], None]) -> int:
    ended = f"attempt {past.number} ended: {past.conclusion.because}"
    match past.conclusion.outcome:
        case Done(how):
            say(f"{ended}; {how}")
            return EXIT_WILL_GO_ON
        case NotDone(why, final):
            say(f"{ended}; nobody is known to go on: {why}")
            if final:
                return kept_from_slurm(EXIT_WILL_NOT_GO_ON, requeue_exit)
            # A job that never had a successor may still be requeued: that is forbidden only once there is one.
            return requeue_exit[0] if requeue_exit else EXIT_WILL_GO_ON
