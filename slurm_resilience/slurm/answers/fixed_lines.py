"""Lines that begin with columns of a fixed width and end in free text, which may hold newlines of its own."""

from __future__ import annotations

from slurm_resilience.errors import SlurmUnparsable


def fixed_and_free(answer: str, width: int, *, no_record: str) -> list[tuple[str, str]]:
    """Each record's columns, `width` wide, and its free text: a shorter line goes on with the text before it.

    `no_record` begins the sentence of SlurmUnparsable for an answer that begins with such a line.
    """
    found: list[tuple[str, list[str]]] = []
    for line in answer.split("\n"):
        if len(line) >= width:
            found.append((line[:width], [line[width:]]))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise SlurmUnparsable(f"{no_record}: {line.strip()[:200]!r}")
    return [(fixed, "\n".join(free)) for fixed, free in found]
