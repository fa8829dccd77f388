"""`slurm-resilience checkpoints export`: a checkpoint for other libraries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints.named import complete_checkpoint, find_checkpoint, read_chain, run_argument
from slurm_resilience.cli.checkpoints.reading import (
    byte_bar,
    packages_of_the_format,
    part_of,
    progress_option,
)
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.manifest.receipts import receipt_of

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.exchange.export import ExportFormat
    from slurm_resilience.manifest.records import CheckpointCommitted


@click.command(cls=SentenceCommand, short_help="Write one for other libraries.")
@run_argument
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--to", "to", type=click.Path(path_type=Path), required=True, help="The file, or for dcp the folder.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["safetensors", "torch", "dcp"]),
    default="safetensors",
    show_default=True,
    help="safetensors: tensors with dotted names. torch: one dict by torch.save, to be loaded with weights_only. "
    "dcp: a folder of torch.distributed.checkpoint.",
)
@click.option(
    "--object",
    "objects",
    multiple=True,
    metavar="NAME",
    help="Only what was registered under this name. A single one is written without its name. [default: all]",
)
@click.option("--rank", type=click.IntRange(min=0), default=0, show_default=True, help="Whose objects.")
@click.option("--force", is_flag=True, help="Replace what is there already.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
@progress_option
def export(
    run: Path,
    checkpoint: str,
    to: Path,
    form: ExportFormat,
    objects: tuple[str, ...],
    rank: int,
    force: bool,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Write what the training had registered, as it was in CHECKPOINT of RUN, in another library's format.

    Every byte is verified on the way. Shards of FSDP and tensor parallel objects are put together. The position in the
    data and the random numbers stay behind: nobody else could use them. The destination comes into being as a whole.

    \b
    Examples:
        slurm-resilience checkpoints export RUN newest --object model --to model.safetensors
        slurm-resilience checkpoints export RUN newest --to all.pt --format torch
    """
    committed = find_checkpoint(read_chain(run), run, checkpoint).committed
    part = part_of(committed, rank)
    with packages_of_the_format():
        from slurm_resilience.checkpoint.exchange.export import export_objects

        with byte_bar("read", part.bytes, asked=progress) as advance:
            state = _state(run, committed, rank, advance)
        # Of a part that no training wrote, the whole state.
        registered: dict[str, Any] = state["objects"] if "objects" in state and "format" in state else state
        about = {"checkpoint": str(committed.checkpoint), "step": committed.step, "rank": rank} | _epoch(state)
        with byte_bar("write", part.bytes if form == "safetensors" else 0, asked=progress) as advance:
            export_objects(registered, to, form=form, only=objects, about=about, force=force, progress=advance)
    size_bytes = sum(each.stat().st_size for each in ([to] if to.is_file() else to.rglob("*")) if each.is_file())
    names = list(objects or registered)
    if as_json:
        told = {"checkpoint": committed.checkpoint, "to": str(to.absolute()), "format": form}
        click.echo(json.dumps(told | {"objects": names, "bytes": size_bytes}))
    else:
        from slurm_resilience.size import size_text

        what = f"{', '.join(names)} of {committed.checkpoint}"
        click.echo(f"{what} {'are' if len(names) > 1 else 'is'} in {to}: {form}, {size_text(size_bytes)}")


def _state(run: Path, committed: CheckpointCommitted, rank: int, advance: Callable[[int], None]) -> dict[str, Any]:
    """Of one rank, with whole tensors where it had shards."""
    from slurm_resilience.checkpoint.distributed.assembly import put_together
    from slurm_resilience.checkpoint.distributed.parts import PartsShelf
    from slurm_resilience.checkpoint.distributed.presence import SHARDS
    from slurm_resilience.checkpoint.distributed.shards import Layouts
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store

    store = Hdf5Store(run)
    shelf = PartsShelf(store, [receipt_of(part) for part in committed.parts])
    skeleton = shelf.skeleton(rank)
    if skeleton.get(SHARDS):
        return put_together(shelf, skeleton, Layouts(), nearest=rank)
    return store.read_part(receipt_of(part_of(committed, rank)), progress=advance)


def _epoch(state: dict[str, Any]) -> dict[str, int]:
    """For who imports it again. The first one needs no word, and a training without epochs is always in it."""
    position = state.get("position")
    epoch = position.get("epoch") if isinstance(position, dict) else None
    return {"epoch": epoch} if isinstance(epoch, int) and epoch > 0 else {}
