"""What lines of one shape can tell: decided once for all lines that differ by digits only. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_resilience.triage.reading.crashes import crash_in
from slurm_resilience.triage.reading.matcher import WINDOW, Matcher
from slurm_resilience.triage.reading.sections import mark_in
from slurm_resilience.triage.reading.speakers import NOBODY, spoken
from slurm_resilience.triage.reading.torchrun_table import table_begun
from slurm_resilience.triage.reading.vocabulary import Sign, Vocabulary

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_TOKEN = re.compile(
    r"\(\?P[<=]\w+[>)]"  # a group's name
    r"|\{\d*,?\d*\}"  # how often
    r"|\\[^0-9xuUN]"  # an escape that says nothing of digits
    r"|0-9"
    r"|(?P<strange>\\.|\[\^(?:[^\]\\]|\\.)*\]|\(\?<?!)"
    r"|(?P<digit>[0-9])"
    r"|."
    r"|\n"
)


@dataclass(frozen=True, slots=True)
class Meaning:
    places: tuple[int, ...]
    """The entries of the table that may know such a line, in their order."""
    signs: frozenset[Sign]
    by_shape: bool
    """All lines of the shape are known by the same entry, the first of `places`: none of them looks at digits."""
    needs: re.Pattern[bytes] | None
    """A line in which this isn't found tells nothing: its digits are others. None: every line may tell something."""


class Meanings:
    """Which shapes mean what, by the table."""

    def __init__(self, vocabulary: Vocabulary, matcher: Matcher) -> None:
        self.vocabulary = vocabulary
        self._shapes = [text.translate(_ZEROS) for text in vocabulary.texts]
        self._matcher = matcher
        self._blind: dict[int, re.Pattern[str] | None] = {}

    def of(self, shape: bytes) -> Meaning | None:
        """None: a line of this shape tells nothing."""
        hits = [at for at, text in enumerate(self._shapes) if text in shape]
        places, signs = self.vocabulary.meaning(hits)
        if len(shape) > WINDOW:
            return Meaning(places, signs, by_shape=False, needs=None)
        whole = shape.decode(errors="replace")
        _, said = spoken(whole)
        places = tuple(place for place in places if self._possible(place, whole, said))
        if Sign.SECTION in signs and mark_in(whole) is None:
            signs -= {Sign.SECTION}
        if Sign.CRASH in signs and crash_in(said) is None:
            signs -= {Sign.CRASH}
        if Sign.TABLE in signs and table_begun(said, NOBODY) is None:
            signs -= {Sign.TABLE}
        if not places and not signs:
            return None
        by_shape = bool(places) and self._is_exact(places[0]) and not signs
        return Meaning(places, signs, by_shape, None if signs else self._needs(hits, places))

    def _is_exact(self, place: int) -> bool:
        blind = self._blind[place]
        return blind is not None and blind.pattern == self._matcher.table[place].regex

    def _needs(self, hits: Sequence[int], places: tuple[int, ...]) -> re.Pattern[bytes] | None:
        texts = [self.vocabulary.texts[at] for at in hits if not set(places).isdisjoint(self.vocabulary.entries[at])]
        if any(text == text.translate(_ZEROS) for text in texts):
            return None
        return re.compile(b"|".join(map(re.escape, texts)))

    def _possible(self, place: int, whole: str, said: str) -> bool:
        if place not in self._blind:
            blind = blind_to_digits(self._matcher.table[place].regex)
            self._blind[place] = None if blind is None else re.compile(blind)
        regex = self._blind[place]
        return regex is None or regex.search(whole) is not None or regex.search(said) is not None


def blind_to_digits(regex: str) -> str | None:
    """An expression that knows every line's shape whose line `regex` knows; the same one if it is blind to them.

    None: there is none that is found this simply.
    """
    parts: list[str] = []
    for token in _TOKEN.finditer(regex):
        text = token[0]
        if token["digit"] is not None:
            parts.append("0")
        elif token["strange"] is not None:
            if text == "[^" or any(letter.isdigit() for letter in text.replace("0-9", "")):
                return None
            if text.startswith("(?"):  # "not followed by": looked for in the whole rest, rather once too often
                rest = regex[token.start() :]
                if any(letter.isdigit() for letter in re.sub(r"\{\d*,?\d*\}|0-9|\(\?P[<=]\w+[>)]", "", rest)):
                    return None
            elif text.startswith("\\"):
                return None
            parts.append(text)
        else:
            parts.append(text)
    return "".join(parts)
