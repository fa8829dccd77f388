"""`slurm-resilience checkpoints`: the group, one command a file."""

from __future__ import annotations

import click

from slurm_resilience.cli.checkpoints.compare import compare
from slurm_resilience.cli.checkpoints.diff import diff
from slurm_resilience.cli.checkpoints.exporting import export
from slurm_resilience.cli.checkpoints.importing import import_
from slurm_resilience.cli.checkpoints.listing import checkpoint_as_json, list_, print_checkpoints
from slurm_resilience.cli.checkpoints.pin import pin, unpin
from slurm_resilience.cli.checkpoints.prune import prune
from slurm_resilience.cli.checkpoints.quarantine import quarantine
from slurm_resilience.cli.checkpoints.release import release
from slurm_resilience.cli.checkpoints.show import show
from slurm_resilience.cli.checkpoints.verify import verify
from slurm_resilience.cli.exits import SentenceGroup
from slurm_resilience.cli.fetch import fetch
from slurm_resilience.cli.publish import publish

__all__ = ["checkpoint_as_json", "checkpoints", "print_checkpoints"]


@click.group(cls=SentenceGroup)
def checkpoints() -> None:
    """Look at the checkpoints of a run, verify, compare, keep, drop and exchange them.

    Only what the manifest of RUN names is a checkpoint. CHECKPOINT is a name as `list` prints it, or `newest`: the one
    that the next attempt would load.

    \b
    Exit codes:
        0   it was done
        1   it could not be done, or (verify, compare, diff) something is damaged or differs
        2   the command line is wrong
        78  the run is not usable, or there is no such checkpoint
        79  (import) the run belongs to another live attempt
    """


_KEEPING = (prune, pin, unpin, quarantine, release)
for command in (list_, show, verify, compare, diff, *_KEEPING, export, import_, publish, fetch):
    checkpoints.add_command(command)
