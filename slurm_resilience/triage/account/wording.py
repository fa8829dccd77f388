"""An account's headline and its one sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Verdict, Who
from slurm_resilience.triage.account.suspect import Suspect, Tier

NOTHING = "nothing names a cause"


def title_of(cause: Cause | None, root: Suspect | None) -> str:
    if cause is None:
        return NOTHING
    if root is not None:
        return root.title
    if cause is Cause.UNKNOWN:
        return NOTHING
    return _TITLES.get(cause, "nothing names a cause")


def sentence_of(root: Suspect | None, verdict: Verdict | None, who: Who) -> str:
    if root is None:
        return NOTHING if verdict is None else verdict.because
    where = str(who)
    match root.tier:
        case _ if root.is_end and where and "processes" not in root.title:
            return f"{where} {root.why}"
        case Tier.EXPLICIT | Tier.AFTER_A_PEER | Tier.LEFT | Tier.KILLED if where:
            return f"{where}: {root.title}"
        case Tier.WAITED if where:
            return f"{root.title}; they waited for {where}"
        case Tier.SILENT:
            return f"{root.title}: {root.why}"
        case Tier.SEEN:
            return f"{root.title}; who died first left no word"
        case _:
            return root.title


_TITLES: Mapping[Cause, str] = {
    Cause.FINISHED: "the training finished",
    Cause.PREEMPTED: "the job was preempted",
    Cause.TIME_LIMIT: "the job's time was over",
    Cause.NODE_FAILURE: "a node failed",
    Cause.WARNED: "a warning signal came",
    Cause.REQUEUED_BY_HAND: "the job was requeued",
    Cause.CANCELLED: "the job was cancelled",
    Cause.CANCELLED_BY_ADMIN: "an admin cancelled the job",
    Cause.OPERATOR_STOP: "somebody asked the run to stop",
    Cause.OUT_OF_MEMORY: "memory ran out",
    Cause.CRASHED: "the training crashed",
    Cause.HUNG: "the training hung",
    Cause.STORAGE: "a file system refused",
    Cause.LAUNCH_FAILED: "Slurm could not start it",
    Cause.NEVER_STARTED: "nothing of it ever started",
    Cause.DEPENDENCY_NEVER: "it waits for what never comes",
    Cause.SUPERVISOR_DIED: "the supervisor was killed",
    Cause.FENCED: "a newer attempt has started",
}
