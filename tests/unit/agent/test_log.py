from __future__ import annotations

import pytest

from slurm_resilience.agent.log import Log


@pytest.mark.parametrize("text", ["plain", "caf\u00e9", "/runs/\udcff/plan.json"], ids=["ascii", "utf-8", "no utf-8"])
def test_whatever_a_path_is_made_of_it_can_be_said(text: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Log("n0").say(text)
    assert capfdbinary.readouterr().err == f"srun-resilient[n0]: {text}\n".encode(errors="replace")
