"""A script's own #SBATCH lines."""

import pytest

from slurm_resilience.slurm.answers.script_options import script_options


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("#SBATCH --nodes=2-4", ("nodes", "2-4")),
        ("#SBATCH --nodes 2", ("nodes", "2")),
        ("#SBATCH -N2", ("nodes", "2")),
        ("#SBATCH -N 2 # why", ("nodes", "2")),
        ("#SBATCH --exclusive --nodes=1", ("exclusive", "")),
        ("#SBATCH --comment='a b'", ("comment", "a b")),
        ("#SBATCH --comment='open", ("comment", "'open")),
    ],
)
def test_options_are_read_as_sbatch_reads_them(line: str, given: tuple[str, str]) -> None:
    assert script_options(f"#!/bin/bash\n\n{line}\n").given[0] == given


def test_lines_behind_the_first_command_are_none() -> None:
    assert script_options("#!/bin/sh\n#SBATCH -t 1\ntrue\n#SBATCH -t 2\n").given == (("time", "1"),)


def test_the_last_word_counts() -> None:
    assert script_options("#SBATCH -N1\n#SBATCH --nodes=3-5\n").node_bounds() == (3, 5)
    assert script_options("#SBATCH -N1k\n").node_bounds() is None
    assert script_options("").list_of("partition") == ()
