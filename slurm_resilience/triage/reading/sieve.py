"""The quick search: which lines of a chunk may tell something, and what. Pure.

Logs say the same again and again with other numbers. So lines are compared with every digit made a 0, and a shape that
was looked at once isn't looked at again. What is new is searched for the texts that telling lines have; of the few that
have one it is asked whether a line of that shape can be known at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_resilience.triage.reading.many_texts import ManyTexts
from slurm_resilience.triage.reading.meaning import Meaning, Meanings

DIGITS = bytes.maketrans(b"123456789\r", b"000000000\n")
"""Each byte stays one byte, so that lines are at the same places."""
_REMEMBERED = 60_000
_REMEMBERED_BYTES = 8 << 20


@dataclass(slots=True)
class Sieve:
    meanings: Meanings
    dull: set[bytes] = field(default_factory=set)
    """Shapes of lines that tell nothing."""
    telling: dict[bytes, Meaning] = field(default_factory=dict)
    """Shapes of lines that may tell something."""
    _texts: ManyTexts = field(init=False)
    _dull_bytes: int = 0
    _telling_bytes: int = 0

    def __post_init__(self) -> None:
        self._texts = ManyTexts([text.translate(DIGITS) for text in self.meanings.vocabulary.texts])

    def look(self, shapes: list[bytes]) -> bool:
        """Whether some of these lines are telling; they are in `telling` then."""
        new = set(shapes) - self.dull
        if not new:
            return False
        fresh = new - self.telling.keys() if self.telling else new
        tells = len(fresh) < len(new)
        if fresh:
            tells = self._search(fresh) or tells
        return tells

    def _search(self, fresh: set[bytes]) -> bool:
        blob = b"\n".join(fresh)
        found = {}
        for shape in self._texts.lines_with_some(blob):
            meaning = self.meanings.of(shape)
            if meaning is not None:
                found[shape] = meaning
        # Bounded in memory: what is forgotten is searched again, nothing more.
        self._dull_bytes += len(blob)
        if len(self.dull) > _REMEMBERED or self._dull_bytes > _REMEMBERED_BYTES:
            self.dull.clear()
            self._dull_bytes = len(blob)
        if found:
            self._telling_bytes += sum(map(len, found))
            if len(self.telling) > _REMEMBERED or self._telling_bytes > _REMEMBERED_BYTES:
                self.telling.clear()
                self._telling_bytes = 0
            self.telling.update(found)
            fresh = fresh - found.keys()
        self.dull |= fresh
        return bool(found)
