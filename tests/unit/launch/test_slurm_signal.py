"""What can be known of a job's --signal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.launch.slurm_signal import in_script, signal_of_job, signal_of_srun, understand
from slurm_resilience.launch.srun_options import split
from slurm_resilience.signals.user_signal import UserSignal


@pytest.mark.parametrize(
    ("text", "name", "lead_s", "batch_shell"),
    [
        ("USR1", "USR1", 60, False),
        ("SIGUSR1@90", "USR1", 90, False),
        ("B:usr2@120", "USR2", 120, True),
        ("R:10@300", "USR1", 300, False),
        ("RB:15@0", "TERM", 0, True),
        (" B:USR1@60 ", "USR1", 60, True),
        ("HUP@65535", "HUP", 65535, False),
    ],
)
def test_a_signal_is_read_as_sbatch_reads_it(text: str, name: str, lead_s: float, batch_shell: bool) -> None:
    assert understand(text, "here") == UserSignal(name, lead_s, batch_shell, "here")


@pytest.mark.parametrize("text", ["", "@60", "USR1@soon", "USR1@-5", "USR1@65536", "X:USR1@60", "B:"])
def test_what_sbatch_would_not_have_taken_is_no_signal(text: str) -> None:
    assert understand(text, "here") is None


@given(st.text(max_size=30))
def test_whatever_is_written_there_a_lead_is_never_negative(text: str) -> None:
    found = understand(text, "here")
    assert found is None or (found.lead_s >= 0 and found.name)


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("#!/bin/bash\n#SBATCH --signal=USR1@60\nsrun true\n", "USR1@60"),
        ("#!/bin/bash\n#SBATCH --signal B:USR1@60\n", "B:USR1@60"),
        ("#!/bin/bash\n#SBATCH -N2 --signal='USR1@60' --time=5\n", "USR1@60"),
        ("#!/bin/bash\n#SBATCH --signal=USR1@60 # a comment\n", "USR1@60"),
        ("#!/bin/bash\n#SBATCH --signal=USR1@60\n#SBATCH --signal=USR2@5\n", "USR2@5"),
        ("#!/bin/bash\n\n# a comment\n#SBATCH --signal=USR1@60\n", "USR1@60"),
        ("#!/bin/bash\necho\n#SBATCH --signal=USR1@60\n", None),  # behind the first command sbatch reads no more
        ("#!/bin/bash\n##SBATCH --signal=USR1@60\n", None),
        ("#!/bin/bash\n#SBATCH --comment='--signal=USR1@60\n", None),
        ("#!/bin/bash\n#SBATCH --time=5\n", None),
        ("#!/bin/bash\n#SBATCH --signal\n", None),
    ],
)
def test_the_script_is_read_as_far_as_sbatch_reads_it(script: str, value: str | None) -> None:
    assert in_script(script) == value


def test_sbatchs_environment_outranks_the_script() -> None:
    script = "#!/bin/bash\n#SBATCH --signal=USR1@60\n"
    found = signal_of_job(script, {"SBATCH_SIGNAL": "B:USR2@90"})
    assert found == UserSignal("USR2", 90, True, "SBATCH_SIGNAL")
    assert signal_of_job(script, {}) == UserSignal("USR1", 60, False, "#SBATCH --signal")
    assert signal_of_job(None, {}) is None


def test_an_allocation_of_sruns_own_has_sruns_signal() -> None:
    assert signal_of_srun(split("--signal=USR1@30 true".split())) == UserSignal("USR1", 30, False, "srun's --signal")
    assert signal_of_srun(split(["true"])) is None
