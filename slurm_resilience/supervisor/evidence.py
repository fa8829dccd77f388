"""Everything that is known when an attempt is over, gathered from the run directory, the caller and Slurm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.preflight_verdict import PreflightVerdict, Then, read_verdict
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.slurms_word import SlurmsWord
from slurm_resilience.supervisor.witnesses import (
    agent_records,
    health_of_nodes,
    last_words,
    saves_refused,
    task_ends,
    unheard,
)
from slurm_resilience.triage.diagnosis import Evidence
from slurm_resilience.triage.health_notes import HealthNote, Mode


@dataclass(frozen=True, slots=True)
class Seen:
    """What the caller itself has seen of the end."""

    command_code: int | None
    supervisor_signals: tuple[str, ...]
    supervisor_died: bool
    agents_expected: int
    end_s: float | None
    in_grace: bool = False
    """Slurm's record showed a preemption while the attempt ran."""
    restarted_by_slurm: bool = False
    """Slurm has started the same job anew, by itself."""
    log_lines: tuple[str, ...] = ()
    """Of the job's own output, those that say something of its end."""
    preflight: PreflightVerdict | None = None
    """Where it ended the attempt; None: it did not, or the attempt's folder tells."""


def gather(
    run: RunDirectory,
    chain: Chain,
    attempt: Attempt,
    seen: Seen,
    word: SlurmsWord,
    *,
    now_s: float,
    say: Callable[[str], None],
) -> Evidence:
    newest = chain.newest_attempt
    agents = agent_records(run, attempt.number, say)
    raised = last_words(run, attempt.number)
    preflight = seen.preflight or read_verdict(run, attempt.number)
    return Evidence(
        training_finished=chain.finished,
        agents=tuple(agents),
        agents_expected=seen.agents_expected,
        unheard=unheard(attempt, agents, seen.agents_expected),
        command_code=seen.command_code,
        supervisor_signals=seen.supervisor_signals,
        supervisor_died=seen.supervisor_died,
        restarted_by_slurm=seen.restarted_by_slurm,
        record=word.record,
        in_grace=seen.in_grace,
        slurm=attempt.started.job is not None,
        restarts_at_start=attempt.started.restart_count or 0,
        end_s=seen.end_s,
        now_s=now_s,
        rank_errors=tuple(words.text for words in raised),
        fenced=newest is not None and newest.number > attempt.number,
        rank_errors_s=tuple(words.time_s for words in raised),
        lives=word.lives,
        exit_notes=task_ends(run, chain, attempt, say),
        health=(*health_of_nodes(run, attempt, say), *_left_out(preflight)),
        log_lines=seen.log_lines,
        saves_failed=saves_refused(attempt),
        release=word.release,
        preempt_mode=word.preempt_mode,
        user_id=_owner_of(run),
        preflight=preflight,
    )


def _left_out(preflight: PreflightVerdict | None) -> tuple[HealthNote, ...]:
    """The nodes for which preflight has ended the attempt: as good as forbidden by checks of their own."""
    if preflight is None or preflight.then is not Then.LEAVE_OUT:
        return ()
    return tuple(HealthNote(each.node, Mode.EXCLUDE, each.findings) for each in preflight.unfit)


def _owner_of(run: RunDirectory) -> int | None:
    """Whose run it is, whoever concludes it."""
    try:
        return run.path.stat().st_uid
    except OSError:
        return None
