"""One attempt in full: `slurm-resilience status RUN --attempt N`, and each of them in `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_resilience.manifest.chain import Attempt, Chain
    from slurm_resilience.manifest.records import AttemptEnded


def last_step(attempt: Attempt) -> int | None:
    """The last step known of: told at the end, or else that of its last checkpoint."""
    if attempt.ended is not None and attempt.ended.step is not None:
        return attempt.ended.step
    return max((checkpoint.step for checkpoint in attempt.checkpoints), default=None)


def print_attempt(run: Path, chain: Chain, attempt: Attempt, *, running: bool) -> None:
    from slurm_resilience.cli.task_ends import print_task_ends

    started, ended = attempt.started, attempt.ended
    where = f"job {started.job}, restart {started.restart_count or 0}" if started.job is not None else started.mode
    click.echo(f"attempt {attempt.number}: {where}, on {started.nodes or started.host}")
    lines = _life(attempt)
    if ended is not None:
        lines += [*_diagnosis(chain, attempt, ended), *_decision(attempt, ended)]
    else:
        lines.append(("ended", "it is running" if running else "nobody has told"))
    for name, text in lines:
        click.echo(f"{name:>14}  {' '.join(text.split())}")
    print_task_ends(run, chain, attempt)


def _life(attempt: Attempt) -> list[tuple[str, str]]:
    from slurm_resilience.cli.wording import time_text

    lines = [("command", " ".join(attempt.started.command)), ("started", time_text(attempt.started_s))]
    resumed, stop = attempt.resumed, attempt.stop_asked
    if resumed is not None:
        begun = "a fresh start" if resumed.checkpoint is None else f"{resumed.checkpoint}, step {resumed.step}"
        lines.append(("resumed", f"{begun}, {resumed.world_size} ranks"))
    lines.append(("saved", ", ".join(checkpoint.checkpoint for checkpoint in attempt.checkpoints) or "nothing"))
    lines += [("save failed", f"step {failed.step}: {failed.why}") for failed in attempt.saves_failed]
    if stop is not None:
        lines.append(("asked to stop", f"{stop.reason}: {stop.because}"))
    if attempt.successor is not None:
        lines.append(("successor", f"job {attempt.successor}"))
    elif attempt.successor_token is not None:
        lines.append(("successor", f"planned as {attempt.successor_token}; its job is not told"))
    return lines


def _diagnosis(chain: Chain, attempt: Attempt, ended: AttemptEnded) -> list[tuple[str, str]]:
    from slurm_resilience.cli.wording import duration_text, time_text

    ended_s = attempt.started_s if attempt.ended_s is None else attempt.ended_s
    lines = [
        ("ended", f"{time_text(ended_s)}, after {duration_text(ended_s - attempt.started_s)}"),
        ("cause", ended.cause.value),
        ("because", ended.because),
        *(("evidence", one) for one in ended.evidence),
        *(("not believed", one) for one in ended.outranked),
    ]
    if ended.signature is not None:
        lines.append(("signature", ended.signature))
    if ended.command_code is not None:
        lines.append(("left with", f"{ended.command_code}"))
    step, lost = last_step(attempt), chain.steps_lost(attempt.number)
    if step is not None:
        lines.append(("last step", f"{step}" + (f", {lost} of them lost" if lost else "")))
    return lines


def _decision(attempt: Attempt, ended: AttemptEnded) -> list[tuple[str, str]]:
    lines = [("put aside", checkpoint) for checkpoint in map(str, attempt.quarantined)]
    lines += [("decision", ended.decision), ("reason", ended.decision_reason)]
    if ended.exclude:
        lines.append(("excluded", ", ".join(ended.exclude)))
    done = "nothing shows that it was" if attempt.carried_out is None else attempt.carried_out.how
    return [*lines, ("carried out", done)]


def attempt_as_json(run: Path, chain: Chain, attempt: Attempt) -> dict[str, Any]:
    from slurm_resilience.cli.task_ends import as_json

    started, resumed, stop, ended = attempt.started, attempt.resumed, attempt.stop_asked, attempt.ended
    return {
        "attempt": attempt.number,
        "mode": started.mode,
        "command": list(started.command),
        "host": started.host,
        "job": started.job,
        "restart_count": started.restart_count,
        "cluster": started.cluster,
        "nodes": started.nodes,
        "started_s": attempt.started_s,
        "resumed": resumed
        and {"checkpoint": resumed.checkpoint, "step": resumed.step, "world_size": resumed.world_size},
        "stop_asked": stop and {"reason": stop.reason, "because": stop.because},
        "ended": ended
        and {
            "time_s": attempt.ended_s,
            "cause": ended.cause.value,
            "because": ended.because,
            "evidence": list(ended.evidence),
            "decision": ended.decision,
            "decision_reason": ended.decision_reason,
            "command_code": ended.command_code,
            "step": ended.step,
            "exclude": list(ended.exclude),
            "outranked": list(ended.outranked),
            "signature": ended.signature,
        },
        "carried_out": attempt.carried_out and attempt.carried_out.how,
        "last_step": last_step(attempt),
        "steps_lost": chain.steps_lost(attempt.number),
        "finished_step": attempt.finished_step,
        "checkpoints": [checkpoint.checkpoint for checkpoint in attempt.checkpoints],
        "saves_failed": [{"step": failed.step, "why": failed.why} for failed in attempt.saves_failed],
        "successor": attempt.successor,
        "quarantined": list(attempt.quarantined),
        **as_json(run, chain, attempt),
    }
