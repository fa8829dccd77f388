"""An account as JSON for programs. Format 1: keys may come, none goes or changes its meaning. Pure."""

from __future__ import annotations

from typing import Any

from slurm_resilience.triage.account.account import FORMAT, Account, Advice, Quote, Who
from slurm_resilience.triage.known.entry import Retry

_HELPS = {Retry.HELPS: True, Retry.ELSEWHERE: True, Retry.USELESS: False, Retry.UNKNOWN: None}


def as_json(account: Account) -> dict[str, Any]:
    verdict = account.verdict
    return {
        "format": FORMAT,
        "about": account.about,
        "cause": None if account.cause is None else account.cause.value,
        "title": account.title,
        "sentence": account.sentence,
        "first": {**_who(account.first), "time_s": account.first_s},
        "sure": account.sure.value,
        "sure_because": account.sure_because,
        "quotes": [_quote(quote) for quote in account.quotes],
        "follows": [
            {
                "title": follow.title,
                "count": follow.count,
                "nodes": list(follow.nodes),
                "ranks": list(follow.ranks),
                "example": _quote(follow.example),
            }
            for follow in account.follows
        ],
        "others": [
            {
                "title": other.title,
                "cause": other.cause.value,
                **_who(other.who),
                "why_not": other.why_not,
                "quote": None if other.quote is None else _quote(other.quote),
            }
            for other in account.others
        ],
        "silent_nodes": list(account.silent_nodes),
        "remedy": _advice(account.advice),
        "verdict": verdict
        and {
            "by": verdict.by,
            "cause": verdict.cause.value,
            "because": verdict.because,
            "explains": verdict.explains,
            "decision": verdict.decision,
            "decision_reason": verdict.decision_reason,
        },
        "differs": account.differs,
        "notes": list(account.notes),
        "unread": [{"what": one.what, "why": one.why} for one in account.unread],
    }


def _who(who: Who) -> dict[str, Any]:
    return {"rank": who.rank, "node": who.node, "task": who.task, "all_ranks": who.all_ranks}


def _quote(quote: Quote) -> dict[str, Any]:
    return {
        "file": quote.place.file,
        "line": quote.place.line,
        "text": quote.text,
        "rank": quote.who.rank,
        "node": quote.who.node,
        "time_s": quote.time_s,
    }


def _advice(advice: Advice | None) -> dict[str, Any] | None:
    if advice is None:
        return None
    return {
        "do": advice.do,
        "command": advice.command,
        "setting": advice.setting,
        "retry": advice.retry.value,
        "retry_helps": _HELPS[advice.retry],
        "avoid": list(advice.avoid),
    }
