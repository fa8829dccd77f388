"""What is done to a part before it is read: a generator of random numbers in, files and a receipt out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from slurm_resilience.checkpoint.store import PartReceipt
from tests.fuzz import documents, hdf5_forgeries
from tests.fuzz.sample import Sample, vouched_for


@dataclass(frozen=True, slots=True)
class Mutant:
    kind: str
    what: str
    files: Mapping[str, bytes | None]
    """What the folder holds now; None: a folder of that name."""
    receipt: PartReceipt
    forged: bool
    """The receipt was made for what lies there now: the content may then be another, and is read all the same."""


def mutate(random: Random, samples: list[Sample]) -> tuple[Sample, Mutant]:
    """A sample, and what became of it."""
    sample, other = random.choice(samples), random.choice(samples)
    kind = random.choices(list(KINDS), weights=[weight for weight, _ in KINDS.values()])[0]
    return sample, KINDS[kind][1](random, sample, other)


def _spoilt(sample: Sample, kind: str, what: str, content: bytes) -> Mutant:
    return Mutant(kind, what, {**sample.files, sample.part: content}, sample.receipt, forged=False)


def _forged(sample: Sample, kind: str, what: str, content: bytes) -> Mutant:
    receipt = vouched_for(sample.receipt, content, min(sample.head_bytes, len(content)))
    return Mutant(kind, what, {**sample.files, sample.part: content}, receipt, forged=True)


def _one_of_the_files(random: Random, sample: Sample) -> str:
    return random.choice(sorted(sample.files))


def flip(random: Random, sample: Sample, other: Sample) -> Mutant:
    name = _one_of_the_files(random, sample)
    content = bytearray(sample.files[name])
    places = [random.randrange(len(content)) for _ in range(random.choice([1, 1, 1, 2, 8]))]
    for at in places:
        content[at] ^= 1 << random.randrange(8)
    what = f"{name}: bits flipped at {places}"
    return Mutant("flip", what, {**sample.files, name: bytes(content)}, sample.receipt, forged=False)


def truncate(random: Random, sample: Sample, other: Sample) -> Mutant:
    name = _one_of_the_files(random, sample)
    content = sample.files[name]
    at = random.choice([0, 1, sample.head_bytes, len(content) - 1, random.randrange(len(content))])
    what = f"{name}: only {at} of {len(content)} bytes"
    return Mutant("truncate", what, {**sample.files, name: content[:at]}, sample.receipt, forged=False)


def tail(random: Random, sample: Sample, other: Sample) -> Mutant:
    more = random.randbytes(random.choice([1, 511, 4096, 10_000]))
    return _spoilt(sample, "tail", f"{len(more)} bytes more", sample.content + more)


def blocks(random: Random, sample: Sample, other: Sample) -> Mutant:
    """Blocks of zeros, blocks that changed places, and blocks of another part: what disks do, not bits."""
    unit = random.choice([16, 512, 4096])
    content, source = bytearray(sample.content), other.content
    count = max(1, len(content) // unit)
    a, b = random.randrange(count) * unit, random.randrange(count) * unit
    how = random.choice(["zeros", "swap", "splice", "ones"])
    size = min(unit, len(content) - a, len(content) - b)
    if how == "zeros":
        content[a : a + size] = bytes(size)
    elif how == "ones":
        content[a : a + size] = b"\xff" * size
    elif how == "swap":
        content[a : a + size], content[b : b + size] = content[b : b + size], content[a : a + size]
    else:
        content[a : a + size] = source[a : a + size].ljust(size, b"\0")
    return _spoilt(sample, "blocks", f"{how} of {size} bytes at {a} and {b} ({other.name})", bytes(content))


def splice(random: Random, sample: Sample, other: Sample) -> Mutant:
    at = random.choice([sample.head_bytes, other.head_bytes, random.randrange(len(sample.content))])
    content = sample.content[:at] + other.content[at:]
    return _spoilt(sample, "splice", f"the first {at} bytes, then {other.name}", content)


def receipt(random: Random, sample: Sample, other: Sample) -> Mutant:
    size, head = len(sample.content), sample.head_bytes
    wrong = random.choice([0, 1, 8, 95, 96, head - 1, head + 1, head // 2, size, size + 1, 2**40, 2**62, 10**18])
    digest = sample.receipt.checksum.split(":")[1]
    texts = ["", ":", "xxh3-128", f"xxh3-128:{digest}", f"xxh3-128:{digest}:-1", f"xxh3-64:{digest}:{head}"]
    files = ["", ".", "/etc/passwd", "../../etc/passwd", "checkpoints", "checkpoints/../..", "a\0b", "a" * 5000]
    choices: list[tuple[str, PartReceipt]] = [
        ("another rank", replace(sample.receipt, rank=random.choice([1, -1, 2**63, 10**30]))),
        ("another size", replace(sample.receipt, bytes=random.choice([0, -1, size + 1, 2**63, 10**30]))),
        ("another head", replace(sample.receipt, checksum=f"xxh3-128:{digest}:{wrong}")),
        ("no checksum", replace(sample.receipt, checksum=random.choice(texts))),
        ("another file", replace(sample.receipt, file=random.choice(files))),
        ("a right checksum of another head", vouched_for(sample.receipt, sample.content, max(1, min(wrong, size)))),
    ]
    what, changed = random.choice(choices)
    return Mutant("receipt", f"{what}: {str(changed)[:300]}", sample.files, changed, forged=False)


def replaced(random: Random, sample: Sample, other: Sample) -> Mutant:
    name = _one_of_the_files(random, sample)
    files: dict[str, bytes | None] = dict(sample.files)
    how = random.choice(["missing", "a folder", "zeros", "noise", other.name])
    size = len(sample.files[name])
    contents = {"zeros": bytes(size), "noise": random.randbytes(min(size, 100_000)), other.name: other.content}
    if how == "missing":
        del files[name]
    else:
        files[name] = contents.get(how)
    return Mutant("replaced", f"{name} is {how}", files, sample.receipt, forged=False)


def metadata(random: Random, sample: Sample, other: Sample) -> Mutant:
    """HDF5's own bytes, vouched for: what its library makes of them is the question."""
    content = bytearray(sample.content)
    tables = [(table.offset, table.offset + table.bytes) for table in sample.tables.values()]
    used = [at for at in range(sample.head_bytes) if content[at] or random.random() < 0.05]
    own = [at for at in used if not any(start <= at < end for start, end in tables)]
    places = random.choices(own, k=random.choice([1, 1, 2, 4]))
    for at in places:
        content[at] = random.choice([0, 0xFF, content[at] ^ 1 << random.randrange(8), random.randrange(256)])
    return _forged(sample, "metadata", f"at {places}", bytes(content))


def hdf5(random: Random, sample: Sample, other: Sample) -> Mutant:
    what, content = hdf5_forgeries.altered(random, sample)
    files = {**sample.files, sample.part: content, hdf5_forgeries.CANARY: hdf5_forgeries.canary(sample)}
    # All of it is the head now: what the library added lies at the end.
    return Mutant("hdf5", what, files, vouched_for(sample.receipt, content, len(content)), forged=True)


def structure(random: Random, sample: Sample, other: Sample) -> Mutant:
    return _document(random, sample, "structure")


def attributes(random: Random, sample: Sample, other: Sample) -> Mutant:
    return _document(random, sample, "attributes")


def _document(random: Random, sample: Sample, name: str) -> Mutant:
    table = sample.tables[name]
    what, text = documents.changed(random, sample.document(name), table.bytes)
    content = bytearray(sample.content)
    content[table.offset : table.offset + table.bytes] = text[: table.bytes].ljust(table.bytes)
    return _forged(sample, name, what, bytes(content))


def tables(random: Random, sample: Sample, other: Sample) -> Mutant:
    """Places and checksums that nobody wrote."""
    name = random.choice(["places", "places", "checksums"])
    table = sample.tables[name]
    content = bytearray(sample.content)
    what = "no row"
    if table.bytes:
        at = table.offset + random.randrange(table.bytes // 8) * 8
        number = random.choice(
            [0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1, len(content), len(content) - 1, sample.head_bytes]
        )
        number = random.choice([number, random.randrange(len(content)), random.getrandbits(64)])
        content[at : at + 8] = number.to_bytes(8, "little")
        what = f"{name} at byte {at - table.offset}: {number}"
    return _forged(sample, "tables", what, bytes(content))


KINDS: dict[str, tuple[int, Callable[[Random, Sample, Sample], Mutant]]] = {
    "flip": (4, flip),
    "truncate": (2, truncate),
    "tail": (1, tail),
    "blocks": (3, blocks),
    "splice": (2, splice),
    "receipt": (3, receipt),
    "replaced": (2, replaced),
    "metadata": (4, metadata),
    "hdf5": (2, hdf5),
    "structure": (6, structure),
    "attributes": (2, attributes),
    "tables": (2, tables),
}
"""How often, and what."""
