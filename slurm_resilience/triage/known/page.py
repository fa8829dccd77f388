"""The table as a page for people: docs/known_failures.md. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_resilience.triage.known.entry import KnownFailure, Role

_HEAD = """\
# Known failures

What `slurm-resilience triage` and the supervisor know by its wording. This page is made of the table in
`slurm_resilience/triage/known`; after a change, `python -m slurm_resilience.triage.known > docs/known_failures.md`.

A **root** names a cause. A **wait** says that somebody waited in vain: it counts where nobody says more. A **cascade**
is what others see of somebody's death: it never names the cause. **Advice** is no news of anything: healthy runs have
it, too.

To add one: an entry in the file of its writer, and `tests/failures/WRITER/NAME.log` with whole lines as they look,
headed by `#! origin:` and `#! expect:`. The tests say what else is wanted.
"""


def page(table: Sequence[KnownFailure]) -> str:
    writers = sorted({entry.writer for entry in table})
    counts = ", ".join(f"{sum(entry.role is role for entry in table)} {role.value}" for role in Role)
    parts = [_HEAD, f"{len(table)} entries: {counts}.\n"]
    for writer in writers:
        parts.append(f"## {writer}\n")
        parts.append("\n".join(_rows([entry for entry in table if entry.writer == writer])) + "\n")
    return "\n".join(parts)


def _rows(entries: Sequence[KnownFailure]) -> Iterator[str]:
    yield "| name | what has happened | role, cause | what to do | again? | wording from |"
    yield "|---|---|---|---|---|---|"
    for entry in entries:
        role = (
            entry.role.value
            if entry.role in (Role.CASCADE, Role.ADVICE)
            else f"{entry.role.value}, {entry.cause.value}"
        )
        remedy = entry.remedy
        do = "" if remedy is None else remedy.do
        if remedy is not None and remedy.setting is not None:
            do += f": `{remedy.setting}`"
        again = "" if remedy is None else remedy.retry.value.removeprefix("a retry ")
        cells = (f"`{entry.name}`", entry.title, role, do, again, _wording(entry))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _wording(entry: KnownFailure) -> str:
    since = "" if entry.since is None else f"; since {entry.since}"
    until = "" if entry.until is None else f"; until {entry.until}"
    return f"{entry.origin}{since}{until}"
