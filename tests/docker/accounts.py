"""What `slurm-resilience triage` says, asked where users are logged in."""

from __future__ import annotations

import json
from typing import Any

from tests.clusters.running import Running

ASKED_WITHIN_S = 90


def account_of(running: Running, attempt: int) -> dict[str, Any]:
    """Of that attempt of the run, by the run's directory, as the user whose it is."""
    words = ("-m", "slurm_resilience.cli.main", "triage", "--json", f"--attempt={attempt}", str(running.run.path))
    cluster = running.cluster
    answer = running.jobs.ask(cluster.python, *words, timeout_s=ASKED_WITHIN_S, env=cluster.environment)
    account: dict[str, Any] = json.loads(answer.out)
    return account
