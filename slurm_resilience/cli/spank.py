"""`slurm-resilience spank`: the SPANK plugin that an administrator may have installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.exits import SentenceGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_resilience.spank.facts import Facts
    from slurm_resilience.spank.finding import Finding

JSON_FORMAT = 1


@click.group(cls=SentenceGroup)
def spank() -> None:
    """Look at the SPANK plugin: what an administrator may add to Slurm for slurm-resilience.

    \b
    Exit codes:
        0   all is fine
        1   something is wrong, or could not be found out
        2   the command line is wrong
        78  FILE is not there
    """


@spank.command(short_help="Say what is installed, for which Slurm, and whether it is loaded.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
@click.option(
    "--probe", "with_probe", is_flag=True, help="Run one tiny job step and see whether its node has the plugin."
)
@click.option(
    "--plugstack",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read this plugstack.conf instead of the one that Slurm reads.",
)
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool, with_probe: bool, plugstack: Path | None) -> None:
    """Say what is installed on this machine, for which Slurm, whether it is loaded, and what to do about what is wrong.

    Looks, and changes nothing. Run it where jobs are submitted and on a compute node: each loads the plugin by itself.
    """
    from slurm_resilience.spank.doctor import arguments_of, examine
    from slurm_resilience.spank.finding import all_fine
    from slurm_resilience.spank.inspection import inspect
    from slurm_resilience.spank.probing import probe

    facts = inspect(os.environ, plugstack=plugstack)
    findings = list(examine(facts))
    if with_probe and facts.named:
        arguments, _ = arguments_of(facts.named[0])
        findings.append(probe(facts, arguments, os.environ, say=lambda line: click.echo(line, err=True)))
    if as_json:
        click.echo(json.dumps(_as_json(facts, findings), indent=2))
    else:
        _print(findings)
    ctx.exit(0 if all_fine(findings) else 1)


def _print(findings: Sequence[Finding]) -> None:
    from slurm_resilience.cli.table import Column, print_table
    from slurm_resilience.spank.finding import verdict

    columns = (Column("CHECK"), Column("STATE"), Column("WHAT"))
    print_table(columns, [(finding.check, finding.level.value, finding.sentence) for finding in findings])
    click.echo()
    for line in dict.fromkeys(f"{each.check}: {each.to_do}" for each in findings if each.to_do is not None):
        click.echo(line)
    click.echo(verdict(findings))


def _as_json(facts: Facts, findings: Sequence[Finding]) -> dict[str, Any]:
    from slurm_resilience.spank.finding import all_fine

    plugin = facts.named[0].plugin if facts.named else facts.unnamed
    stamp = None if plugin is None or plugin.contents is None else plugin.contents.stamp
    return {
        "format": JSON_FORMAT,
        "fine": all_fine(findings),
        "node": facts.node,
        "slurm": facts.slurm_version,
        "plugstack": str(facts.plugstack_file.path),
        "lines": [
            {"place": named.line.place, "required": named.line.required, "arguments": list(named.line.arguments)}
            for named in facts.named
        ],
        "plugin": None if plugin is None else str(plugin.file.path),
        "version": None if stamp is None else stamp.version,
        "built_for": None if stamp is None else ".".join((str(stamp.slurm[0]), *(f"{n:02d}" for n in stamp.slurm[1:]))),
        "loaded_here": facts.loaded.listed,
        "findings": [
            {
                "check": finding.check,
                "state": finding.level.value,
                "sentence": finding.sentence,
                "to_do": finding.to_do,
            }
            for finding in findings
        ],
    }
