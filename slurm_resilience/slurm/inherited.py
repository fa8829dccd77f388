"""What a job's environment says of another job.

sbatch hands the whole environment of who calls it on to the new job. Slurm sets SLURM_JOB_ID anew, but SLURM_ARRAY_*
only in array elements and SLURM_RESTART_COUNT only in jobs that were started again, and takes neither back (22.05 to
25.11): a job that an array element has submitted is told that it was that element, and would have it requeued in its
own place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from slurm_resilience.environment_variable import first_number
from slurm_resilience.errors import SlurmError
from slurm_resilience.slurm.client import JobRecord, JobRef
from slurm_resilience.slurm.facts import job_of

_ARRAY = "SLURM_ARRAY_"
_RESTARTS = "SLURM_RESTART_COUNT"


def without_inherited(environment: Mapping[str, str], job: Callable[[JobRef], JobRecord | None]) -> dict[str, str]:
    """`environment` without what is another job's, as far as Slurm says so; `job` asks it, where there is a doubt."""
    true = dict(environment)
    number, array = first_number(true, "SLURM_JOB_ID"), first_number(true, "SLURM_ARRAY_JOB_ID")
    if number is None:
        return true
    # The last element has the array's own number: that can't be another job's.
    if array is not None and array != number and _is_a_job_of_its_own(number, job):
        true = {name: value for name, value in true.items() if not name.startswith(_ARRAY)}
    restarts = first_number(true, _RESTARTS) or 0
    own = job_of(true)
    if restarts == 0 or own is None:
        return true
    with contextlib.suppress(SlurmError):
        record = job(own)
        # It only ever grows: where there is less, the count is of another job. More may be our next life already.
        if record is not None and record.restarts < restarts:
            del true[_RESTARTS]
            if record.restarts:
                true[_RESTARTS] = str(record.restarts)
    return true


def _is_a_job_of_its_own(number: int, job: Callable[[JobRef], JobRecord | None]) -> bool:
    """Whether Slurm knows a job by this number alone. An element is not listed by it."""
    try:
        record = job(JobRef(str(number)))
    except SlurmError:
        return False
    return record is not None and record.job == str(number)
