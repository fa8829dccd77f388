"""All texts that a line may be telling by: those of the table, and those of this folder. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_resilience.triage.known.entry import KnownFailure
from slurm_resilience.triage.reading import crashes, sections, torchrun_table, tracebacks


class Sign(enum.Enum):
    """What a text is a sign of, beside the table's failures."""

    TRACEBACK = enum.auto()
    UNRAISABLE = enum.auto()
    TABLE = enum.auto()
    SECTION = enum.auto()
    CRASH = enum.auto()


NO_SIGN: frozenset[Sign] = frozenset()
_SIGNS = {
    Sign.TRACEBACK: (tracebacks.BEGIN, tracebacks.FRAMED),
    Sign.UNRAISABLE: tracebacks.UNRAISABLE,
    Sign.TABLE: (torchrun_table.BEGIN, torchrun_table.FAILURES),
    Sign.SECTION: sections.HINTS,
    Sign.CRASH: crashes.HINTS,
}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    texts: tuple[bytes, ...]
    entries: tuple[tuple[int, ...], ...]
    """By text: the places of the entries that have it as a hint."""
    signs: tuple[frozenset[Sign], ...]

    @classmethod
    def of(cls, table: Sequence[KnownFailure]) -> Vocabulary:
        entries: dict[str, list[int]] = {}
        signs: dict[str, frozenset[Sign]] = {}
        for place, entry in enumerate(table):
            for hint in entry.hints:
                entries.setdefault(hint, []).append(place)
        for sign, texts in _SIGNS.items():
            for text in texts:
                signs[text] = signs.get(text, NO_SIGN) | {sign}
        every = list(dict.fromkeys([*entries, *signs]))
        return cls(
            tuple(text.encode() for text in every),
            tuple(tuple(entries.get(text, ())) for text in every),
            tuple(signs.get(text, NO_SIGN) for text in every),
        )

    def meaning(self, hits: Sequence[int]) -> tuple[tuple[int, ...], frozenset[Sign]]:
        """The entries that may know a line with these texts, in their order, and what else it may be."""
        places = sorted({place for hit in hits for place in self.entries[hit]})
        return tuple(places), NO_SIGN.union(*(self.signs[hit] for hit in hits))
