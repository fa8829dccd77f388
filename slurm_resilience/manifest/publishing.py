"""Between the manifest and the places where checkpoints are published: what is said there, and what is written here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from slurm_resilience.checkpoint.format.part_format import Head
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.checkpoint.tiers.part_contents import contents_of_parts
from slurm_resilience.checkpoint.tiers.publication import Outgoing, Parcel
from slurm_resilience.checkpoint.tiers.published import Published, PublishedFile
from slurm_resilience.checkpoint.tiers.publishing_plan import Candidate
from slurm_resilience.errors import (
    CheckpointDamaged,
    CheckpointUnavailable,
    CheckpointUnsupported,
    ConfigurationError,
)
from slurm_resilience.manifest.attempt import live_owner
from slurm_resilience.manifest.chain import Chain, Checkpoint, CheckpointState
from slurm_resilience.manifest.encoding import NotUnderstood, NotWhatWasWritten, decode, encode
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.receipts import receipt_of
from slurm_resilience.manifest.records import (
    CheckpointCommitted,
    CheckpointPinned,
    CheckpointPublished,
    Line,
    Record,
)
from slurm_resilience.manifest.run_directory import RunDirectory


def candidates(chain: Chain, where: str, named: Sequence[str] = ()) -> list[Candidate]:
    """In the order of commitment; all of them, or those `named`."""
    return [
        Candidate(each.committed.checkpoint, each.state is CheckpointState.LIVE, where in each.published)
        for each in chain.checkpoints
        if not named or each.committed.checkpoint in named
    ]


def parcel_of(run: Path, chain: Chain, checkpoint: Checkpoint, head_of: Callable[[PartReceipt], Head]) -> Parcel:
    """The files of `checkpoint` with what their bytes have to be, and its note. Reads the heads, through `head_of`.

    Raises CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported.
    """
    committed = checkpoint.committed
    folder = run / "checkpoints" / committed.checkpoint
    receipts = [receipt_of(part) for part in committed.parts]
    try:
        contents = contents_of_parts(
            [(receipt, head_of(receipt)) for receipt in receipts], lambda name: _size_of(folder / name)
        )
    except ValueError as error:
        raise CheckpointDamaged(folder, str(error)) from error
    files = [Outgoing(name, folder / name, each) for name, each in contents.items()]
    note = Published(
        run_id=chain.run_id,
        run=chain.name,
        checkpoint=committed.checkpoint,
        step=committed.step,
        files=tuple(PublishedFile(each.name, each.contents.size_bytes, each.contents.identity) for each in files),
        line=encode(Line(1, checkpoint.time_s, committed)).decode("ascii").strip(),
    )
    return Parcel(note, tuple(files))


def record_published(journal: Journal, checkpoint: str, where: str) -> None:
    """Once, however often it is called. Of a checkpoint that was forgotten meanwhile, too: its copy is all there is."""
    with journal.writing() as writer:
        found = Chain.of(writer.lines()).checkpoint(checkpoint)
        if found is not None and where not in found.published:
            writer.append(CheckpointPublished(found.committed.checkpoint, where))


def committed_of(published: Published, where: str) -> CheckpointCommitted:
    """What the manifest of its run said when it was published. Raises CheckpointDamaged, CheckpointUnsupported."""
    note = Path(where, published.checkpoint)
    try:
        record = decode(published.line.encode("ascii", errors="replace")).record
    except NotWhatWasWritten as error:
        raise CheckpointDamaged(note, str(error)) from error
    except NotUnderstood as error:
        raise CheckpointUnsupported(f"{where}/{published.checkpoint}: {error}") from error
    if not isinstance(record, CheckpointCommitted) or record.checkpoint != published.checkpoint:
        raise CheckpointDamaged(note, "its note speaks of something else")
    present = {f"checkpoints/{published.checkpoint}/{file.name}" for file in published.files}
    missing = [part.file for part in record.parts if part.file not in present]
    if missing:
        raise CheckpointDamaged(note, f"its note doesn't name {missing[0]}")
    return record


def refuse_under_their_hands(run: RunDirectory, chain: Chain, record: CheckpointCommitted) -> None:
    """Raises ConfigurationError for a checkpoint that is forgotten, while an attempt is running."""
    known = chain.checkpoint(record.checkpoint)
    if known is not None and known.state is CheckpointState.FORGOTTEN and live_owner(run, chain) is not None:
        raise ConfigurationError(
            f"the running attempt may be deleting {record.checkpoint} at this moment: fetch it when the run has "
            "stopped, or into another run directory"
        )


def take_in(journal: Journal, record: CheckpointCommitted, where: str, *, pin: bool) -> bool:
    """Let the manifest know a checkpoint that was fetched from `where` and verified. False: it is whole here already,
    live or in quarantine.

    `pin`: a checkpoint that somebody has fetched is mostly an old one, and retention would be at it with the next
    commit. Raises ConfigurationError where an attempt has begun meanwhile, which clears away what is forgotten.
    """
    with journal.writing() as writer:
        chain = Chain.of(writer.lines())
        known = chain.checkpoint(record.checkpoint)
        if known is not None and known.state in (CheckpointState.LIVE, CheckpointState.QUARANTINED):
            return False
        refuse_under_their_hands(journal.run, chain, record)
        told: list[Record] = [record]
        if known is None or where not in known.published or known.committed.parts != record.parts:
            told.append(CheckpointPublished(record.checkpoint, where))
        if pin:
            told.append(CheckpointPinned(record.checkpoint, f"fetched from {where}"))
        writer.append(*told)
    return True


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise CheckpointDamaged(path, "the file is missing") from error
    except OSError as error:
        raise CheckpointUnavailable(f"{path} can't be looked at: {error.strerror}") from error
