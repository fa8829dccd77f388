from __future__ import annotations

import pytest

from slurm_resilience import parent_death
from slurm_resilience.training.shield import die_with_launcher


def test_a_rank_that_cannot_be_made_to_end_with_its_launcher_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parent_death, "_prctl", lambda *_: -1)
    die_with_launcher()
    assert "can't be made to end with its launcher" in capsys.readouterr().err
