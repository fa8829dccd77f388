"""How the command on this node ended, from what was seen. Unknown is never good news."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.agent.supervision import Kill, State, all_done
from slurm_resilience.errors import EXIT_FINISHED, EXIT_OWNED, EXIT_WILL_GO_ON
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.signals.runtime_folder import RankPage, RankPhase

KILLED = 137
"""128 + SIGKILL, as the shell would say it."""
NOT_STARTED = 127


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    exit_code: int
    why: str | None


def judge(state: State, ranks: int | None) -> Verdict:
    """The verdict on a command that has ended, by itself or by us."""
    if state.newer is not None and not _finished(state, ranks):
        return _ghost(f"attempt {state.newer} of the run has begun: this one is a ghost and ends")
    if all_done(state.pages, ranks):
        return _done(state)
    if state.kill is Kill.DEADLINE:
        return _killed_at_deadline(state)
    code = KILLED if state.code is None else state.code
    if code == EXIT_OWNED and state.pages:  # they use our library, which leaves so when the journal refuses it
        return _ghost("the journal refused a rank: a newer attempt of the run has begun")
    if state.kill is not None:
        return Verdict(Outcome.FAILED, code or KILLED, f"{state.lost}; its launcher hung and was killed")
    if state.stop is not None:
        return _asked(state, code)
    if code != 0:
        return Verdict(Outcome.FAILED, code, _failed_rank(state.pages) or f"the command left with {code}")
    failed = _failed_rank(state.pages)
    if failed is not None:
        return Verdict(Outcome.FAILED, 1, f"{failed}, although the command left with 0")
    return Verdict(Outcome.FINISHED, EXIT_FINISHED, None)


def stopped_before_start(because: str) -> Verdict:
    return Verdict(Outcome.STOPPED, EXIT_WILL_GO_ON, f"asked to stop ({because}) before the command was started")


def not_started(why: str) -> Verdict:
    return Verdict(Outcome.NOT_STARTED, NOT_STARTED, why)


def _finished(state: State, ranks: int | None) -> bool:
    """Every rank has seen the journal take the end of the training: it takes nothing from a ghost."""
    return all_done(state.pages, ranks) and all(page.phase is RankPhase.FINISHED for page in state.pages)


def _ghost(why: str) -> Verdict:
    """Whatever its ranks say, the run is another attempt's: only what the journal took of this one counts."""
    return Verdict(Outcome.STOPPED, EXIT_OWNED, why)


def _done(state: State) -> Verdict:
    killed_by_us = state.kill is not None
    how = "what was left of its processes was killed" if killed_by_us else None
    if any(page.phase is RankPhase.STOPPED for page in state.pages):
        if not killed_by_us and state.code:
            how = f"the command left with {state.code} after every rank had stopped in order"
        return Verdict(Outcome.STOPPED, EXIT_WILL_GO_ON, how)
    if killed_by_us or not state.code:
        return Verdict(Outcome.FINISHED, EXIT_FINISHED, how)
    # The training is over and must never start again, yet somebody wants to know that what came after it failed.
    return Verdict(Outcome.FINISHED, state.code, f"the training finished, then the command left with {state.code}")


def _killed_at_deadline(state: State) -> Verdict:
    saved = [page.saved_step for page in state.pages]
    if saved and min(saved) >= 0:
        why = f"killed at the deadline; newest checkpoint seen by every rank: step {min(saved)}"
        return Verdict(Outcome.KILLED_AT_DEADLINE, EXIT_WILL_GO_ON, why)
    if any(step >= 0 for step in saved):
        why = f"killed at the deadline; newest checkpoint that a rank saw: step {max(saved)}"
        return Verdict(Outcome.KILLED_AT_DEADLINE, EXIT_WILL_GO_ON, why)
    return Verdict(Outcome.KILLED_AT_DEADLINE, KILLED, "killed at the deadline; no checkpoint was seen")


def _asked(state: State, code: int) -> Verdict:
    """It ended by itself after it was asked to stop, and not every rank said that it stopped."""
    if not state.pages:  # it doesn't use our library: whatever it did about the signal, and whatever its code
        return Verdict(Outcome.STOPPED, EXIT_WILL_GO_ON, f"the command left with {code} after it was asked to stop")
    if code != 0:
        why = _failed_rank(state.pages) or f"the command left with {code} while it was to stop"
        return Verdict(Outcome.FAILED, code, why)
    return Verdict(Outcome.STOPPED, EXIT_WILL_GO_ON, "left with 0 after it was asked to stop; not every rank said so")


def _failed_rank(pages: tuple[RankPage, ...]) -> str | None:
    for page in pages:
        if page.phase is RankPhase.FAILED:
            return f"rank {page.rank} failed at step {page.step}"
    return None
