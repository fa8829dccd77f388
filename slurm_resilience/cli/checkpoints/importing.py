"""`slurm-resilience checkpoints import`: another library's checkpoint as one of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_resilience.cli.checkpoints.named import run_argument
from slurm_resilience.cli.checkpoints.reading import byte_bar, packages_of_the_format, progress_option
from slurm_resilience.cli.exits import SentenceCommand
from slurm_resilience.errors import ConfigurationError, RunOwned

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.exchange.foreign import Foreign
    from slurm_resilience.checkpoint.exchange.reading import ImportFormat
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.journal import Journal, Writer
    from slurm_resilience.manifest.records import CheckpointCommitted, CheckpointId, Part


@click.command("import", cls=SentenceCommand, short_help="Make one of another library's file.")
@run_argument
@click.option("--from", "source", type=click.Path(path_type=Path), required=True, help="The file or folder.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "torch", "safetensors", "dcp", "lightning", "hf"]),
    default="auto",
    show_default=True,
    help="torch: a file of torch.save. dcp: a folder of torch.distributed.checkpoint. lightning: a .ckpt. "
    "hf: a checkpoint-N folder of Hugging Face's Trainer.",
)
@click.option(
    "--as",
    "mapping",
    multiple=True,
    metavar="NAME=PATH",
    help="Register what lies at PATH in the file as NAME: `model=state_dict`, `optimizer=optimizer_states/0`. `.` is "
    "everything; `model=state_dict/net.` takes the names that begin with `net.`, without that. "
    "[default: model, optimizer and scheduler, where the format says what they are]",
)
@click.option("--step", type=click.IntRange(min=0), help="Steps completed. [default: what the file says]")
@click.option("--epoch", type=click.IntRange(min=0), help="Epochs completed. [default: what the file says]")
@click.option("--ranks", type=click.IntRange(min=1), default=1, show_default=True, help="Write as many equal parts.")
@click.option("--force", is_flag=True, help="Forget the run's checkpoints of higher steps, so that this one loads.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for programs.")
@progress_option
def import_(
    run: Path,
    source: Path,
    form: ImportFormat,
    mapping: tuple[str, ...],
    step: int | None,
    epoch: int | None,
    ranks: int,
    force: bool,
    as_json: bool,
    progress: bool | None,
) -> None:
    """Make a checkpoint of RUN from another library's file; the run is created if there is none.

    The next attempt of the run goes on from it, if it registers the same names: with the objects' state, the step and
    the epoch (from its beginning; without one, a loop over steps or batches goes on behind that many). Where the data
    stood within an epoch and what the random numbers were, the file doesn't say.

    Only tensors and plain values are read. A file that would need pickle code to be loaded is refused, since that code
    could do anything.

    \b
    Examples:
        slurm-resilience checkpoints import RUN --from last.ckpt
        slurm-resilience checkpoints import RUN --from checkpoint-500 --as model=model
        slurm-resilience checkpoints import RUN --from weights.pt --as net=. --step 0
    """
    from slurm_resilience.manifest.journal import Journal
    from slurm_resilience.manifest.run_directory import RunDirectory

    asked = _mapping(mapping)
    journal = Journal(RunDirectory(run))
    if journal.exists():
        _refuse_where_somebody_works(journal)
    with packages_of_the_format():
        from slurm_resilience.checkpoint.exchange.reading import read_foreign

        with byte_bar("read", _size_bytes(source), asked=progress) as advance:
            foreign = read_foreign(source, form, progress=advance)
        objects = _chosen(foreign, asked, source)
        steps = foreign.step if step is None else step
        if steps is None:
            raise ConfigurationError(f"{source} doesn't say at which step it was saved: give --step")
        epochs = foreign.epochs_done if epoch is None else epoch
        journal.create(run.absolute().name)
        checkpoint = _write(journal, run, source, objects, steps, epochs, ranks, force)
    where = f"at step {steps}" + ("" if epochs is None else f", the beginning of epoch {epochs}")
    if as_json:
        told = {"checkpoint": checkpoint, "step": steps, "epoch": epochs, "format": foreign.form, "ranks": ranks}
        click.echo(json.dumps(told | {"objects": sorted(objects)}))
    else:
        click.echo(f"{checkpoint} made from {source} ({foreign.form}): {', '.join(objects)}; {run} goes on {where}")


def _mapping(words: tuple[str, ...]) -> dict[str, str]:
    mapping = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise click.UsageError(f"--as {word}: write NAME=PATH, as in model=state_dict")
        mapping[name] = path
    return mapping


def _chosen(foreign: Foreign, asked: Mapping[str, str], source: Path) -> dict[str, Mapping[str, Any]]:
    from slurm_resilience.checkpoint.exchange.foreign import pick

    paths = asked or foreign.defaults
    if not paths:
        has = ", ".join(str(key) for key in foreign.tree) or "nothing"
        raise ConfigurationError(f"what to take from {source} isn't clear, it holds {has}: say so, --as model=NAME")
    objects = {name: pick(foreign.tree, path) for name, path in paths.items()}
    for name, value in objects.items():
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{paths[name]} in {source} is a {type(value).__name__}, not a state_dict")
    return objects


def _size_bytes(source: Path) -> int:
    """Of what safetensors files there are: the only ones that tell how far they are."""
    files = [source] if source.is_file() else [*source.glob("*.safetensors")] if source.is_dir() else []
    return sum(file.stat().st_size for file in files if file.suffix == ".safetensors")


def _refuse_where_somebody_works(journal: Journal) -> None:
    from slurm_resilience.cli.ownership import look_at_holder
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.process_identity import Liveness

    chain = Chain.of(journal.read())
    holder = look_at_holder(journal.run, chain)
    if holder is not None and holder.liveness is not Liveness.GONE:
        raise RunOwned(journal.run.path, f"{holder.owner}: {holder.liveness.value}")
    if chain.finished:
        raise ConfigurationError(f"run {journal.run.path} is finished and never started again: import into a new one")


def _write(
    journal: Journal,
    run: Path,
    source: Path,
    objects: Mapping[str, Any],
    step: int,
    epoch: int | None,
    ranks: int,
    force: bool,
) -> CheckpointId:
    from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.records import CheckpointCommitted, Part, SaveReason

    started_s = time.perf_counter()
    chain = Chain.of(journal.read())
    _higher(chain, step, run, force=force)  # before anything is written
    attempt = 0 if chain.newest_attempt is None else chain.newest_attempt.number
    name = _free_name(chain, step, attempt)
    store = Hdf5Store(run)
    state = _state(objects, step, epoch)
    facts = {"step": step, "attempt": attempt, "world_size": ranks, "imported_from": str(source.absolute())}
    parts: list[Part] = []
    try:
        for rank in range(ranks):
            receipt = store.write_part(name, rank=rank, state=state, attributes=facts)
            parts.append(Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum))
        seconds = round(time.perf_counter() - started_s, 3)
        with journal.writing() as writer:
            committed = CheckpointCommitted(name, step, attempt, SaveReason.IMPORTED, ranks, tuple(parts), seconds)
            _commit(writer, committed, run, force=force)
    except BaseException:
        if not _may_be_named(journal, name):
            store.delete(name)
        raise
    return name


def _may_be_named(journal: Journal, name: CheckpointId) -> bool:
    """Whether the manifest names it already, or nobody can say: Ctrl-C may come behind the line."""
    from slurm_resilience.errors import ManifestError
    from slurm_resilience.manifest.chain import Chain

    try:
        return Chain.of(journal.read()).checkpoint(name) is not None
    except ManifestError:
        return True


def _commit(writer: Writer, committed: CheckpointCommitted, run: Path, *, force: bool) -> None:
    """Looked at once more, under the lock: somebody may have started the run meanwhile."""
    from slurm_resilience.manifest.chain import Chain
    from slurm_resilience.manifest.records import CheckpointForgotten

    chain = Chain.of(writer.lines())
    newest = 0 if chain.newest_attempt is None else chain.newest_attempt.number
    if newest > committed.attempt:
        raise RunOwned(run, f"attempt {newest} has started meanwhile")
    why = f"{committed.checkpoint} was imported at an earlier step, by --force"
    forgotten = [CheckpointForgotten(each, why) for each in _higher(chain, committed.step, run, force=force)]
    writer.append(committed, *forgotten)  # the new one first: a crash in between leaves one too many


def _higher(chain: Chain, step: int, run: Path, *, force: bool) -> list[CheckpointId]:
    """The live checkpoints that would be loaded instead of one at `step`."""
    higher = [each for each in chain.loadable() if each.committed.step > step]
    if higher and not force:
        first = higher[0].committed
        raise ConfigurationError(
            f"run {run} would go on from {first.checkpoint} (step {first.step}) and not from step {step}: import into "
            "a new run, or --force forgets its checkpoints of higher steps"
        )
    for each in higher:
        if each.pinned is not None:
            raise ConfigurationError(
                f"checkpoint {each.committed.checkpoint} is pinned ({each.pinned}): unpin it first"
            )
    return [each.committed.checkpoint for each in higher]


def _free_name(chain: Chain, step: int, attempt: int) -> CheckpointId:
    """One that never was: files of a forgotten one may still be on their way out."""
    from slurm_resilience.manifest.records import CheckpointId, checkpoint_id

    taken = {each.committed.checkpoint for each in chain.checkpoints}
    plain = f"{checkpoint_id(step, attempt)}.imported"
    names = [plain, *(f"{plain}.{number}" for number in range(2, len(taken) + 3))]
    return next(CheckpointId(name) for name in names if name not in taken)


def _state(objects: Mapping[str, Any], step: int, epoch: int | None) -> dict[str, Any]:
    """As a training saves it, without what no other library keeps."""
    from slurm_resilience.training.cursor import Position
    from slurm_resilience.training.resumption import STATE_FORMAT

    # Without epochs, one loop has counted its items from the first: they are the steps.
    position = Position(step=step, item=step) if epoch is None else Position(step=step, epoch=epoch)
    return {
        "format": STATE_FORMAT,
        "objects": dict(objects),
        "position": position.to_state(),
        "random": None,
        "data": {},
        "gradient_buckets": {},
        "notes": {},
    }
