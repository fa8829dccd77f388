"""Who can say how an attempt ended: the node agents by their records, the ranks by their exceptions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.launch.host_list import expand
from slurm_resilience.manifest.agent_record import AgentRecord, read_agent_record
from slurm_resilience.manifest.chain import Attempt
from slurm_resilience.manifest.run_directory import RunDirectory


def agent_records(run: RunDirectory, attempt: int, say: Callable[[str], None]) -> list[AgentRecord]:
    """The records that can be read, by node; `say` hears of one that another version has written."""
    found = []
    for path in run.agent_records(attempt):
        try:
            record = read_agent_record(path)
        except ManifestUnsupported as error:
            say(str(error))
            continue
        if record is not None:
            found.append(record)
    return found


def rank_errors(run: RunDirectory, attempt: int) -> tuple[str, ...]:
    """The last line of each rank's exception, oldest first: the first one to fall is most likely the root."""
    found: list[tuple[float, str]] = []
    for path in run.attempt(attempt).glob("error-rank-*.txt"):
        with contextlib.suppress(OSError):  # one witness less
            lines = path.read_text(errors="replace").strip().splitlines() or ["no words"]
            found.append((path.stat().st_mtime, f"{path.stem.removeprefix('error-')}: {lines[-1][:300]}"))
    return tuple(words for _, words in sorted(found))


def unheard(attempt: Attempt, agents: Sequence[AgentRecord], expected: int) -> tuple[str, ...]:
    """The nodes without a record, where it is clear which ones took part: those of a step on all nodes of the job."""
    if len(agents) >= expected or not attempt.started.nodes:
        return ()
    nodes = expand(attempt.started.nodes)
    heard = {agent.host for agent in agents}
    return tuple(node for node in nodes if node not in heard) if len(nodes) == expected else ()
