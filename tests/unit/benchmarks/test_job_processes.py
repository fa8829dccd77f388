from __future__ import annotations

import pytest

from benchmarks.job_processes import kind_of

TORCHRUN = "python -m slurm_resilience.integrations.torchrun --nnodes=2 train.py"


@pytest.mark.parametrize(
    ("words", "parents_words", "has_rank", "kind"),
    [
        ("srun --ntasks=2 python -m slurm_resilience.agent plan.json", "python", False, "srun"),
        ("python -m slurm_resilience.agent plan.json", "slurmstepd", False, "agent"),
        (TORCHRUN, "python -m slurm_resilience.agent plan.json", False, "torchrun"),
        ("python -u train.py", TORCHRUN, True, "rank"),
        ("python -u train.py", "python -u train.py", True, "worker"),
        ("slurm-resilience guardian", "python -m slurm_resilience.agent", False, None),
        ("/bin/bash script", "slurmstepd", False, None),
    ],
)
def test_a_process_is_known_by_its_words_and_its_parents(
    words: str, parents_words: str, has_rank: bool, kind: str | None
) -> None:
    assert kind_of(words, parents_words, has_rank=has_rank) == kind
