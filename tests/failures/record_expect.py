"""What triage has to say of a run, and in what it differs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.known.entry import Retry


@dataclass(frozen=True, slots=True)
class Expect:
    cause: str
    """Name of a Cause; of several, by `|`, where each is right."""
    says: str = ""
    """A regular expression: title, sentence or quotes say so."""
    rank: int | None = None
    """The first rank; None: not asked for."""
    node: str | None = None
    retry: str | None = None
    """Name of a Retry; None: not asked for."""
    everywhere: bool = False
    """It met all ranks alike: none may be blamed."""
    attempt: int | None = None
    """The one that triage is asked for; None: the newest."""

    def differences(self, account: Mapping[str, Any], nodes: Mapping[str, str] | None = None) -> list[str]:
        """Of what `triage --json` says; none: it is right. `nodes`: their real names here."""
        first, found = account["first"], []
        causes = {Cause[name].value for name in self.cause.split("|")}
        if account["cause"] not in causes:
            found.append(f"the cause is {account['cause']}, not {' or '.join(sorted(causes))}")
        told = "\n".join([account["title"], account["sentence"], *(quote["text"] for quote in account["quotes"])])
        if not re.search(self.says, told):
            found.append(f"nothing says {self.says}: {told[:400]}")
        if self.rank is not None and first["rank"] != self.rank:
            found.append(f"the first rank is {first['rank']}, not {self.rank}")
        if self.everywhere and first["rank"] is not None:
            found.append(f"rank {first['rank']} is blamed for what all met")
        node = self.node if nodes is None or self.node is None else nodes[self.node]
        if node is not None and first["node"] != node:
            found.append(f"the first node is {first['node']}, not {node}")
        if self.retry is not None:
            retry = account["remedy"] and account["remedy"]["retry"]
            if retry != Retry[self.retry].value:
                found.append(f"about a retry it says {retry!r}, not {Retry[self.retry].value!r}")
        return found


def false_alarm(account: Mapping[str, Any]) -> list[str]:
    """What it blames a run for in which nothing failed."""
    if account["cause"] in (None, Cause.FINISHED.value):
        return []
    return [f"a run in which nothing failed is blamed for {account['cause']}: {account['sentence']}"]
