"""A job that another job has submitted finds that one's array and restarts in its environment."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurm_resilience.errors import SlurmUnavailable, SlurmUnparsable
from slurm_resilience.slurm.client import JobRecord, JobRef
from slurm_resilience.slurm.facts import job_facts
from slurm_resilience.slurm.inherited import without_inherited
from tests.faults.fake_slurm import running

ELEMENT = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "5", "HOME": "/home/ada"}


class Slurm:
    def __init__(self, *known: JobRecord, elements: Mapping[str, str] | None = None, silent: bool = False) -> None:
        self.known = {str(record.job): record for record in known}
        self.elements = elements or {}
        self.silent = silent
        self.asked: list[str] = []

    def job(self, job: JobRef) -> JobRecord | None:
        self.asked.append(str(job))
        if self.silent:
            raise SlurmUnavailable("no answer")
        if job in self.elements:
            raise SlurmUnparsable(f"job {job} is not one job, but 1: {self.elements[job]} is the first")
        return self.known.get(job)


def said(environment: Mapping[str, str], slurm: Slurm) -> tuple[str, int]:
    facts = job_facts(without_inherited(environment, slurm.job))
    assert facts is not None
    return str(facts.job), facts.restart_count


def test_a_job_that_an_array_element_has_submitted_is_not_that_element() -> None:
    slurm = Slurm(running("90"), running("77_4"))
    assert said({**ELEMENT, "SLURM_JOB_ID": "90"}, slurm) == ("90", 0)
    true = without_inherited({**ELEMENT, "SLURM_JOB_ID": "90"}, slurm.job)
    assert true == {"HOME": "/home/ada", "SLURM_JOB_ID": "90"}


def test_an_element_is_one() -> None:
    slurm = Slurm(running("77_4"), elements={"81": "77_4"})
    assert said({**ELEMENT, "SLURM_JOB_ID": "81"}, slurm) == ("77_4", 0)


def test_the_last_element_has_the_arrays_own_number_and_nobody_is_asked() -> None:
    slurm = Slurm()
    assert said({**ELEMENT, "SLURM_JOB_ID": "77"}, slurm) == ("77_4", 0)
    assert slurm.asked == []


def test_the_restarts_of_the_job_that_submitted_it_are_not_its_own() -> None:
    assert said({"SLURM_JOB_ID": "90", "SLURM_RESTART_COUNT": "2"}, Slurm(running("90"))) == ("90", 0)
    assert said({"SLURM_JOB_ID": "90", "SLURM_RESTART_COUNT": "2"}, Slurm(running("90", restarts=1))) == ("90", 1)
    both = {**ELEMENT, "SLURM_JOB_ID": "90", "SLURM_RESTART_COUNT": "2"}
    assert said(both, Slurm(running("90"))) == ("90", 0)


@pytest.mark.parametrize("restarts", [2, 3])
def test_its_own_restarts_are_believed_also_where_slurm_has_queued_it_again_meanwhile(restarts: int) -> None:
    element = {**ELEMENT, "SLURM_JOB_ID": "81", "SLURM_RESTART_COUNT": "2"}
    slurm = Slurm(running("77_4", restarts=restarts), elements={"81": "77_4"})
    assert said(element, slurm) == ("77_4", 2)
    assert said({"SLURM_JOB_ID": "9", "SLURM_RESTART_COUNT": "2"}, Slurm(running("9", restarts=restarts))) == ("9", 2)


def test_where_slurm_does_not_answer_the_environment_is_believed() -> None:
    both = {**ELEMENT, "SLURM_JOB_ID": "90", "SLURM_RESTART_COUNT": "2"}
    assert said(both, Slurm(silent=True)) == ("77_4", 2)
    assert said(both, Slurm()) == ("77_4", 2)


def test_where_there_is_nothing_to_doubt_nobody_is_asked() -> None:
    slurm = Slurm(silent=True)
    assert without_inherited({"SLURM_JOB_ID": "9"}, slurm.job) == {"SLURM_JOB_ID": "9"}
    assert without_inherited({"SLURM_RESTART_COUNT": "2"}, slurm.job) == {"SLURM_RESTART_COUNT": "2"}
    assert slurm.asked == []
