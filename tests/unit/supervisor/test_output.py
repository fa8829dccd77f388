"""Where a job's output goes: what lies in it from the attempts before is not this one's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOOK = """
from slurm_resilience.supervisor.output import Output
found = Output.of_this_process()
print(None if found is None else f"{found.path} {found.since_byte}")
"""


def test_a_file_is_found_with_what_was_in_it_before(tmp_path: Path) -> None:
    file = tmp_path / "job.out"
    file.write_text("an attempt before\n")
    with file.open("ab") as stderr:
        done = subprocess.run([sys.executable, "-c", LOOK], stdout=subprocess.PIPE, stderr=stderr, check=True)
    assert done.stdout.decode().strip() == f"{file} 18"


def test_a_pipe_is_nothing_to_read_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "None"
