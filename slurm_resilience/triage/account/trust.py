"""How sure an account is, and why, and why other suspects were not believed. Pure."""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Sure, Verdict
from slurm_resilience.triage.account.facts import Facts
from slurm_resilience.triage.account.ranking import Ranked
from slurm_resilience.triage.account.roster import Roster
from slurm_resilience.triage.account.suspect import INTERRUPTED, Suspect, Tier
from slurm_resilience.triage.evidence import CLOCKS_AGREE_S


def how_sure(
    cause: Cause | None, verdict: Verdict | None, root: Suspect | None, ranked: Ranked, roster: Roster
) -> tuple[Sure, str]:
    del roster
    if verdict is not None and verdict.implied and verdict.cause is cause:
        return Sure.LIKELY, f"{verdict.by} takes it for that, and another end could look the same"
    if verdict is not None and not verdict.firm and verdict.cause is cause and cause is not Cause.CRASHED:
        return Sure.LIKELY, f"{verdict.by} says so, and nobody has written down the end"
    if cause is None or root is None or cause is not root.cause:
        if verdict is None or cause is None:
            return Sure.GUESS, "no line names a cause"
        if verdict.explains and cause is not Cause.UNKNOWN:
            return Sure.CERTAIN, f"{verdict.by} says so"
        return Sure.GUESS, f"{verdict.by} knows only that it ended, and no line names a cause"
    if verdict is not None and verdict.explains and verdict.cause is cause and cause is not Cause.CRASHED:
        return Sure.CERTAIN, f"{verdict.by} says the same"
    return _by_the_lines(root, ranked)


def _by_the_lines(root: Suspect, ranked: Ranked) -> tuple[Sure, str]:
    match root.tier:
        case Tier.WORD:
            return Sure.CERTAIN, "Slurm says so itself"
        case Tier.EXPLICIT:
            return _of_explicit(root, ranked)
        case Tier.CANCELLED:
            return Sure.LIKELY, "Slurm ended the job without giving a reason, and no earlier line names one"
        case Tier.KILLED:
            return Sure.LIKELY, _of_kill(root)
        case Tier.SILENT:
            return Sure.LIKELY, f"others lived on: {root.why}"
        case Tier.AFTER_A_PEER:
            return Sure.GUESS, "it was raised by a rank that had lost a peer before; no word of that peer is here"
        case Tier.WAITED if root.who.rank is not None:
            return Sure.LIKELY, root.why
        case Tier.WAITED:
            return Sure.GUESS, "a peer that hangs and a network that is cut look the same to those who wait"
        case Tier.TOLD:
            return _of_order(root, ranked)
        case Tier.LEFT:
            return Sure.GUESS, "it left with an error, and its own words are not among what was read"
        case Tier.STEP_ENDED:
            return Sure.GUESS, "Slurm ended the step, and no line says for whom: a person, a preemption, the time limit"
        case Tier.SEEN:
            return Sure.GUESS, "all that was read is how others saw somebody die"


def _of_kill(root: Suspect) -> str:
    if root.signal == "SIGABRT":
        return "it aborted, and no line of it says why"
    return "who died first is known; nothing says who killed it: no out-of-memory record, not Slurm"


def _of_order(root: Suspect, ranked: Ranked) -> tuple[Sure, str]:
    if root.cause is Cause.SUPERVISOR_DIED:
        return Sure.GUESS, "who would say why an end comes has said nothing; it may also have been killed with the job"
    if any(one.known is not None and one.known.name == INTERRUPTED for one in (*ranked.suspects, *ranked.followed)):
        return Sure.LIKELY, "srun says that it passed Ctrl-C on, and nobody complained before"
    return Sure.LIKELY, "it was told to end before anybody else complained; nothing says by whom"


def _of_explicit(root: Suspect, ranked: Ranked) -> tuple[Sure, str]:
    rivals = [one for one in ranked.suspects[1:] if one.tier is Tier.EXPLICIT and one.cause is not root.cause]
    near = [one for one in rivals if _near(one, root)]
    if near:
        return Sure.LIKELY, f"{near[0].title} came at the same time, as far as clocks and order tell"
    if root.who.all_ranks:
        return Sure.CERTAIN, "all ranks say the same"
    if root.certain and root.known is None and not root.ended:
        return Sure.LIKELY, "nobody is seen to have caught it; how its process ended is not among what was read"
    if root.certain:
        return Sure.CERTAIN, "it names a cause, and nothing that names another came before it"
    return Sure.LIKELY, "the line names a cause; that it ended the process is not said"


def _near(one: Suspect, root: Suspect) -> bool:
    if one.time_s is None or root.time_s is None:
        mine, others = root.quotes[:1], one.quotes[:1]
        in_one_file = bool(mine and others) and mine[0].place.file == others[0].place.file
        return not in_one_file
    return abs(one.time_s - root.time_s) <= CLOCKS_AGREE_S


def why_not(one: Suspect, root: Suspect | None, facts: Facts) -> str:
    verdict = facts.verdict
    if root is None and verdict is None:
        return "the program went on behind it, and nothing tells of an end"
    if root is None:
        return f"{facts.verdict.by} says otherwise" if facts.verdict is not None else "it names no cause"
    if verdict is not None and verdict.explains and verdict.cause is root.cause and one.cause is not root.cause:
        return f"{verdict.by} says {root.cause.value}"
    if one.caught:
        return "its process lived on: the first that ended was another, by a signal"
    if one.tier > root.tier:
        return _LESS[root.tier]
    if one.time_s is not None and root.time_s is not None:
        later_s = one.time_s - root.time_s
        if later_s > CLOCKS_AGREE_S:
            return f"it came {later_s:.0f} s later"
        if later_s < -CLOCKS_AGREE_S:
            return "it came long before the end, and was lived through"
    return "it came at the same time, and says less of why, or stands later"


_LESS = {
    Tier.WORD: "Slurm's own word outranks it",
    Tier.EXPLICIT: "a local cause outranks it",
    Tier.CANCELLED: "that the job was ended from outside outranks it",
    Tier.KILLED: "a process that was killed outranks it",
    Tier.SILENT: "a node that fell silent outranks it",
    Tier.AFTER_A_PEER: "an exception outranks it",
    Tier.WAITED: "a wait in vain outranks it",
    Tier.TOLD: "a launcher that was told to end outranks it",
    Tier.LEFT: "it says less",
    Tier.STEP_ENDED: "it says less",
    Tier.SEEN: "it says less",
}
