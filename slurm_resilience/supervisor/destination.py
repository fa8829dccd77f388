"""Where a run's checkpoints are published: understood before the run starts, counted in its manifest.

Nothing of a driver is loaded into the supervisor: drivers start threads, and some take a second.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from slurm_resilience import command
from slurm_resilience.checkpoint.tiers.pace import parse_rate
from slurm_resilience.checkpoint.tiers.places import PUBLISH, ObjectUrl, parse_place
from slurm_resilience.errors import CommandMissing, CommandTimedOut, ConfigurationError
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.supervisor.request import Publishing

PUBLISH_LIMIT = "SLURM_RESILIENCE_PUBLISH_LIMIT"
LOADS_THE_DRIVER_S = 30.0
_LOAD_THE_DRIVER = """
import sys
try:
    import fsspec
except ImportError:
    sys.exit("there is no fsspec here: pip install 'slurm-resilience[object-store]'")
try:
    fsspec.get_filesystem_class(sys.argv[1])
except (ImportError, ValueError) as error:
    sys.exit(str(error))
"""


def understand_publishing(
    to: str | None, limit: str | None, environment: Mapping[str, str], *, python: str = sys.executable
) -> Publishing | None:
    """What the options and the environment ask for; None: nothing. An option comes before the environment.

    Raises ConfigurationError for what can't work: a place that is none, a rate that is none, a driver that is missing.
    """
    said = to or environment.get(PUBLISH)
    if not said:
        if limit:
            raise ConfigurationError("--publish-limit: there is no --publish that it could limit")
        return None
    rate = limit or environment.get(PUBLISH_LIMIT) or None
    try:
        if rate is not None:
            parse_rate(rate)
    except ValueError as error:
        raise ConfigurationError(f"{'--publish-limit' if limit else PUBLISH_LIMIT}: {error}") from error
    try:
        place = parse_place(said, environment, run="run", run_id="id")  # the run has its names later
        if isinstance(place, ObjectUrl):
            _refuse_without_driver(place.url, python)
    except ConfigurationError as error:
        raise ConfigurationError(f"{'--publish' if to else PUBLISH}: {error}") from error
    return Publishing(said, rate)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is live and not published. How many bytes that is can't be told from the parts: some borrow from others."""

    count: int
    live: int
    """How many are live, those that are published among them."""
    where: str

    def __str__(self) -> str:
        return f"{self.count} checkpoint{'' if self.count == 1 else 's'}"


def waiting_for(chain: Chain, publishing: Publishing, environment: Mapping[str, str]) -> Waiting:
    where = str(parse_place(publishing.to, environment, run=chain.name, run_id=chain.run_id))
    live = chain.loadable()
    return Waiting(sum(where not in each.published for each in live), len(live), where)


def _refuse_without_driver(url: str, python: str) -> None:
    try:
        done = command.run([python, "-c", _LOAD_THE_DRIVER, urlsplit(url).scheme], timeout_s=LOADS_THE_DRIVER_S)
    except (CommandMissing, CommandTimedOut):
        return  # a slow file system is no proof that something is missing
    if done.code != 0:
        said = (done.err.strip() or f"its driver left with {done.code}").splitlines()
        raise ConfigurationError(f"{url} can't be reached: {said[-1]}")
