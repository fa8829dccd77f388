"""The account of a case for people: short, with the lines that say so. Nothing is cut without a word."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slurm_resilience.cli.wording import time_text
from slurm_resilience.launch.host_list import fold

if TYPE_CHECKING:
    from slurm_resilience.triage.account.account import Account, Follow, Other, Quote

LABEL = 11
QUOTES, FOLLOWS, OTHERS, NOTES, UNREAD = 3, 3, 2, 2, 2
"""Shown of each without `--all`."""
NARROWEST = 60


def report(account: Account, *, width: int, everything: bool) -> list[str]:
    """Lines to print."""
    lines = [_cut(f"{account.about}: {account.title}", width)]
    for label, text in _rows(account, everything):
        lines += _row(label, text, width)
    return lines


def _rows(account: Account, everything: bool) -> Iterator[tuple[str, str]]:
    cause = "unknown" if account.cause is None else account.cause.value
    yield "cause", f"{cause} ({account.sure.value}: {account.sure_because})"
    if account.sentence and account.sentence != account.title:
        yield "what", account.sentence
    where = str(account.first)
    when = "" if account.first_s is None else time_text(account.first_s)
    if where or when:
        yield "first", ", ".join(part for part in (where, when) if part)
    yield from _several("said", [_quote(quote) for quote in account.quotes], QUOTES, everything)
    yield from _several("followed", [_follow(follow) for follow in account.follows], FOLLOWS, everything)
    if account.silent_nodes:
        yield "silent", fold(account.silent_nodes)
    verdict = account.verdict
    if account.differs is not None:
        yield "but", account.differs
    if verdict is not None and verdict.decision is not None:
        yield "decided", f"{verdict.decision}: {verdict.decision_reason}"
    yield from _several("not it", [_other(other) for other in account.others], OTHERS, everything)
    yield from _advice(account)
    yield from _several("note", list(account.notes), NOTES, everything)
    yield from _several("not read", [one.why for one in account.unread], UNREAD, everything)


def _advice(account: Account) -> Iterator[tuple[str, str]]:
    advice = account.advice
    if advice is None:
        return
    yield "do", advice.do
    if advice.command is not None:
        yield "run", advice.command
    if advice.setting is not None:
        yield "set", advice.setting
    if advice.avoid:
        yield "leave out", f"--exclude={fold(advice.avoid)}"
    yield "retry", advice.retry.value


def _several(label: str, texts: Sequence[str], most: int, everything: bool) -> Iterator[tuple[str, str]]:
    shown = texts if everything or len(texts) <= most + 1 else texts[:most]  # "and 1 more" takes a line, too
    for at, text in enumerate(shown):
        yield (label if at == 0 else ""), text
    if len(shown) < len(texts):
        yield "", f"and {len(texts) - len(shown)} more (--all)"


def _quote(quote: Quote) -> str:
    return f"{quote.place}: {quote.text}"


def _follow(follow: Follow) -> str:
    where = f" on {fold(follow.nodes)}" if follow.nodes else ""
    times = f" ×{follow.count}" if follow.count > 1 else ""
    return f"{follow.title}{times}{where} ({follow.example.place})"


def _other(other: Other) -> str:
    who = f", {other.who}" if str(other.who) and str(other.who) not in other.title else ""
    place = "" if other.quote is None else f" ({other.quote.place})"
    return f"{other.title}{who}: {other.why_not}{place}"


def _row(label: str, text: str, width: int) -> list[str]:
    """A command or a place is copied from here: it is never broken in the middle of a word."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    head, hang = f"{label:>{LABEL}}  ", " " * (LABEL + 2)
    wrapped = textwrap.wrap(
        " ".join(plain.split()),
        max(NARROWEST, width),
        initial_indent=head,
        subsequent_indent=hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped or [head.rstrip()]


def _cut(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, max(NARROWEST, width), break_long_words=False, break_on_hyphens=False))
