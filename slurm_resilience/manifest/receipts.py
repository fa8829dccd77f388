"""Between a part as the manifest names it and the receipt that a store wants for it."""

from __future__ import annotations

from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.manifest.records import Part


def receipt_of(part: Part) -> PartReceipt:
    return PartReceipt(part.rank, part.file, part.bytes, part.checksum)


def named(receipt: PartReceipt) -> Part:
    """What the manifest is to say of a durable part."""
    return Part(receipt.rank, receipt.file, receipt.bytes, receipt.checksum)
