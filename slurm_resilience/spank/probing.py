"""Runs the probe's job step. The one thing here that makes Slurm do something."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import CommandMissing, CommandTimedOut
from slurm_resilience.slurm.commands import own_environment
from slurm_resilience.spank.arguments import Arguments
from slurm_resilience.spank.facts import Facts
from slurm_resilience.spank.finding import Finding, wrong
from slurm_resilience.spank.probe import (
    LIMIT_S,
    Probed,
    announcement,
    judge_probe,
    probe_command,
    probe_environment,
    read_probe,
)

_NOTE_S = 5.0
"""A note is written before the step is over for Slurm, but a shared spool may show it later."""

Runner = Callable[..., Completed]


def probe(
    facts: Facts,
    arguments: Arguments,
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
    runner: Runner = run,
) -> Finding:
    """`say` is told beforehand what is going to be done."""
    env = probe_environment(own_environment(environment))
    name = f"slurm-resilience-probe-{secrets.token_hex(4)}"
    argv = probe_command(name, inside_a_job="SLURM_JOB_ID" in env)
    say(announcement(argv))
    try:
        done = runner(argv, timeout_s=LIMIT_S, env=env)
    except CommandMissing as error:
        return wrong("probe", str(error), "run this where Slurm's commands are")
    except CommandTimedOut:
        _cancel(name, env, runner)
        sentence = f"the job step did not end within {LIMIT_S} s, and was cancelled"
        return wrong("probe", sentence, "try the same srun by hand, without --resilient")
    probed = read_probe(done.code, done.out, done.err)
    return judge_probe(_with_note(probed, facts, arguments), relay_expected=arguments.relay is not None)


def _cancel(name: str, env: Mapping[str, str], runner: Runner) -> None:
    try:
        runner(["scancel", f"--name={name}"], timeout_s=LIMIT_S, env=env)
    except (CommandMissing, CommandTimedOut):
        return  # its time limit of a minute ends it


def _with_note(probed: Probed, facts: Facts, arguments: Arguments) -> Probed:
    spool = Path(arguments.spool_on(probed.node or facts.node))
    if probed.job is None or not os.access(spool, os.R_OK | os.X_OK):
        return probed
    found = _has_note(spool, probed)
    waited_until = time.monotonic() + _NOTE_S
    here = facts.node == probed.node
    while here and not found and time.monotonic() < waited_until:
        time.sleep(0.2)
        found = _has_note(spool, probed)
    return replace(probed, exit_note=True if found else False if here else None)


def _has_note(spool: Path, probed: Probed) -> bool:
    for file in spool.glob(f"{probed.job}.*.jsonl"):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        if any(_step(line) == probed.step for line in lines):
            return True
    return False


def _step(line: str) -> str | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return str(said.get("step")) if isinstance(said, dict) else None
