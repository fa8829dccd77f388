"""Who writes a line: by what stands before it, and by the file's name. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import PurePath

from slurm_resilience.triage.event import Speaker

NOBODY = Speaker()
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TAGS_AT_MOST = 8
_JSON_RANK = re.compile(r'"(?:global_)?rank": ?"?(\d{1,7})\b')
_JSON_AT_MOST = 400
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T _]" + _CLOCK + r"(?: ?(?:Z|[+-]\d\d:?\d\d)\b)?"
_SYSLOG_DATE = r"[A-Z][a-z]{2} {1,2}\d{1,2} " + _CLOCK
_ISO_SYSLOG = rf"\d{{4}}-\d\d-\d\dT{_CLOCK}(?:Z|[+-]\d\d:\d\d)"
_HOST = r"[A-Za-z0-9][\w.-]{0,80}"
_SYSLOG_REST = rf"(?!DEBUG|INFO|WARN|ERROR|CRIT)(?P<node>{_HOST}) (?=[\w/.-]{{1,40}}(?:\[\d{{1,8}}\])?: )"
_TAGS = (
    r"(?P<task>\d{1,7}): ",  # srun --label
    r"\[[Rr]ank[ :=]?(?P<rank>\d{1,7})\]:? ?",  # torch; many a logger
    r"(?:[Rr]ank|RANK)[ :=]?(?P<rank2>\d{1,7})(?::| \|) ",
    r"\[[A-Za-z_]{1,40}?(?P<local_rank>\d{1,5})\]: ?",  # torchrun --tee: its role and the local rank
    r"\[[IWEF] [\w./-]{1,100}:\d{1,6}\] ?",  # c10 before 2.3
    r"\[PG (?:ID )?\d[^\]\n]{0,100} Rank (?P<rank3>\d{1,7})\] ?",  # a process group of it
    rf"\[?[IWEF]\d{{4}} {_CLOCK} (?:(?P<pid>\d{{1,8}}) )?[^\]\n]{{1,200}}\] ?",  # glog, Python's and C++'s
    rf"(?:{_ISO_SYSLOG}|{_SYSLOG_DATE}) {_SYSLOG_REST}",
    rf"\[(?:{_DATE}|[A-Z][a-z]{{2}} {_SYSLOG_DATE} \d{{4}}| {{0,8}}\d{{1,10}}\.\d{{3,9}})\] ?",  # Slurm, dmesg
    r"<\d{1,3}>(?=\[)",
    rf"{_DATE}(?=[ \]|:-])[ |]{{0,3}}(?:- )?",
    rf"(?P<node2>{_HOST}):(?P<pid2>\d{{1,8}}):\d{{1,8}} \[-?\d{{1,4}}\] (?=.{{0,120}}NCCL)",
    rf"\[(?P<node3>{_HOST}):(?P<pid3>\d{{1,8}})\] ?",  # Open MPI
    r"\[\d{1,7},(?P<rank4>\d{1,7})\]<std(?:out|err|diag)>: ?",  # mpirun --tag-output
    # pdsh, before a tag of the rank's or a time; a host with a number, which no level and no exception has.
    # pdsh, before a tag of the rank's or a time; a host with a number in it, as no level and no exception has.
    rf"(?=[A-Za-z][A-Za-z_.-]{{0,80}}\d)(?P<node4>{_HOST}): (?=\[(?:[Rr]ank[ :=]?\d|\d{{4}}-\d\d-\d\d))",
    r"\((?:[\w.:-]{1,80} )?pid=(?P<pid4>\d{1,8})(?:, [^)\n]{1,80})?\) ?",  # Ray
)
_TAG = re.compile(rf"\s{{0,8}}(?:{'|'.join(_TAGS)})")


def spoken(line: str) -> tuple[Speaker, str]:
    """Who says the line, and what it says without what was put before it."""
    at = 0
    who: dict[str, str] = {}
    for _ in range(_TAGS_AT_MOST):
        tag = _TAG.match(line, at)
        if tag is None or tag.end() == at:
            break
        if tag["task"] is not None and ("task" in who or at > 0):  # srun writes its label first: this is the message's
            break
        if tag.lastgroup is not None:
            for name, value in tag.groupdict().items():
                if value is not None:
                    who.setdefault(name.rstrip("234"), value)
        at = tag.end()
    if line.startswith("{") and (rank := _JSON_RANK.search(line, 0, _JSON_AT_MOST)) is not None:
        who["rank"] = rank[1]
    return (speaker_of(who) if who else NOBODY), line[at:]


def speaker_of(words: dict[str, str]) -> Speaker:
    """From named groups; what is no number where one has to be is left out."""
    return Speaker(
        node=words.get("node") or None,
        rank=number(words.get("rank")),
        local_rank=number(words.get("local_rank")),
        task=number(words.get("task")),
        pid=number(words.get("pid")),
        job=words.get("job") or None,
        attempt=number(words.get("attempt")),
    )


def number(text: str | None) -> int | None:
    return int(text) if text is not None and len(text) <= 10 and text.isascii() and text.isdigit() else None


def together(near: Speaker, far: Speaker) -> Speaker:
    """What `near` doesn't know is taken from `far`: the file's name, an attempt's beginning."""
    if far == NOBODY:
        return near
    if near == NOBODY:
        return far
    missing = {
        field.name: getattr(far, field.name)
        for field in dataclasses.fields(Speaker)
        if getattr(near, field.name) is None
    }
    return dataclasses.replace(near, **missing)


# ── by the name ──────────────────────────────────────────────────────────────────────────────────────────────────────

_SLURM = re.compile(r"(?:^|[^A-Za-z])(?:slurm|job|jobid)[-_.]?(\d+)(?:_\d+)?(?!\d)", re.IGNORECASE)
_LOCAL_RANK = re.compile(r"local[-_.]?rank[-_.]?(\d{1,5})", re.IGNORECASE)
_RANK = re.compile(r"(?<![A-Za-z])(?<!local[-_.])(?:global[-_.]?)?rank[-_.]?(\d{1,7})", re.IGNORECASE)
_TASK = re.compile(r"(?<![A-Za-z])(?:task|proc)[-_.]?(\d{1,7})", re.IGNORECASE)
_NODE = re.compile(
    r"(?:(?:^|(?<=\.))(?:node|host)[-.](?!(?:out|err|log|txt)\b)([A-Za-z][A-Za-z0-9-]*?)"
    r"|(?:^|(?<=\.))(?:node|host)_([A-Za-z]+\d[A-Za-z0-9-]*?)"  # `node_test` is what somebody calls his job
    r"|(?<=_)(?<!multi_)(?<!single_)(?:node|host)-([A-Za-z][A-Za-z0-9-]*?))(?=[._]|$)",
    re.IGNORECASE,
)
_TORCHRUN = re.compile(r"attempt_\d+/(\d{1,5})/(?:stdout|stderr)\.log$|attempt_\d+/(\d{1,5})/error\.json$")
_OUR_ATTEMPT = re.compile(r"(?:^|/)attempts/(\d{4,9})/[^/]+$")
_LIKE_A_HOST = re.compile(r"(?!(?:rank|task|proc|job|slurm|attempt|step|v)\d)([A-Za-z]{1,30})\d{1,6}")


def speaker_by_name(path: str) -> Speaker:
    """`slurm-123.out`, `rank_0003.log`, `node-n3.log`, torchrun's `…/attempt_0/3/stderr.log`, our attempts' folders."""
    pure = PurePath(path)
    name = pure.name
    torchrun = _TORCHRUN.search(path)
    local_rank = _LOCAL_RANK.search(name)
    words = {
        "job": _first(_SLURM.search(name)),
        "rank": _first(_RANK.search(name)),
        "local_rank": _first(torchrun) or _first(local_rank),
        "task": _first(_TASK.search(name)),
        "node": _first(_NODE.search(name)),
        "attempt": _first(_OUR_ATTEMPT.search(path)),
    }
    return speaker_of({key: value for key, value in words.items() if value is not None})


def speakers_by_name(paths: Sequence[str], nodes: Collection[str] = ()) -> list[Speaker]:
    """As `speaker_by_name`, for files that belong together.

    `train.n3.rank7.out` names a node where it is known that there is an n3, or where other files differ there: `llama3`
    would stand in all of them.
    """
    speakers = [speaker_by_name(path) for path in paths]
    variants: dict[tuple[str, str], set[str]] = defaultdict(set)
    places: list[list[tuple[tuple[str, str], str]]] = []
    for path in paths:
        pure = PurePath(path)
        here = []
        for word in re.split(r"[._]", pure.name)[:-1]:
            host = _LIKE_A_HOST.fullmatch(word)
            if host is not None:
                kind = (str(pure.parent), host[1])
                variants[kind].add(word)
                here.append((kind, word))
        places.append(here)
    found: list[Speaker] = []
    for path, speaker, here in zip(paths, speakers, places, strict=True):
        words = set(re.split(r"[/._]", path)) | {PurePath(path).name.partition(".")[0]}
        named = [node for node in nodes if node in words or node in path.split("/")]
        guessed = [word for kind, word in here if len(variants[kind]) > 1]
        node = named[0] if len(named) == 1 else guessed[0] if len(guessed) == 1 and not nodes else None
        found.append(speaker if node is None or speaker.node else dataclasses.replace(speaker, node=node))
    return found


def _first(found: re.Match[str] | None) -> str | None:
    return None if found is None else next((group for group in found.groups() if group is not None), None)
