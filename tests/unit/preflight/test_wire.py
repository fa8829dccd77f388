from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.preflight.check import Check, Context
from slurm_resilience.preflight.result import Finding, Outcome, Problem
from slurm_resilience.preflight.wire import (
    card_of,
    card_value,
    check_of,
    check_value,
    context_of,
    context_value,
    finding_of,
    finding_value,
)
from tests.unit.preflight.fake_step import card

MEASURED = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3)
FINDINGS = st.builds(
    Finding,
    outcome=st.sampled_from(Outcome),
    sentence=st.text(max_size=50),
    problem=st.sampled_from([*Problem, None]),
    remedy=st.none() | st.text(max_size=20),
    measured=MEASURED,
    node=st.none() | st.just("n3"),
)


def _through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(FINDINGS)
def test_a_finding_comes_back_as_it_was(finding: Finding) -> None:
    assert finding_of(_through_json(finding_value(finding))) == finding


def test_a_card_and_a_check_come_back_as_they_were() -> None:
    assert card_of(_through_json(card_value(card(3, "n4")))) == card(3, "n4")
    check = Check("storage", "writing", "m:f", 7.5, Outcome.FAIL, alone=True)
    assert check_of(_through_json(check_value(check))) == check


def test_a_context_comes_back_with_the_nodes_own_name_and_environment() -> None:
    sent = Context("", {}, run_dir=Path("/scratch/run"), checkpoint_bytes=10, interface="ib0")
    got = context_of(_through_json(context_value(sent)), node="n3", environment={"HOME": "/root"})
    assert got == Context("n3", {"HOME": "/root"}, run_dir=Path("/scratch/run"), checkpoint_bytes=10, interface="ib0")


@pytest.mark.parametrize("value", [{}, {"outcome": "splendid", "sentence": "x"}, {"outcome": "ok"}])
def test_what_is_no_finding_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        finding_of(value)
