"""Programs that know nothing of us, started by srun-resilient in every way a user may try."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.command import Completed
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.jobs import Jobs, leftovers, wait_until

ROOT = Path(__file__).parents[2]
PATIENCE_S = 200.0

LISTENER = """
import os, signal, subprocess, sys, time
from pathlib import Path

notes = Path(sys.argv[1])
again = os.environ.get("SLURM_RESTART_COUNT", "0")
me = f"{again}-{os.environ.get('RANK', os.environ['SLURM_PROCID'])}"
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
heard = []

def hear(number, _):
    heard.append(signal.Signals(number).name)

for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, hear)
(notes / f"started-{me}").touch()
while not heard and again == "0":
    time.sleep(0.05)
time.sleep(1.5 if again == "0" else 0)  # whether it comes again
(notes / f"heard-{me}").write_text(" ".join(heard))
(notes / f"child-{me}").write_text("alive" if child.poll() is None else "dead")
child.kill()
"""
"""Two of them: they wait for a signal, note what they hear and leave with 0; when the job is started again, at once."""

PATIENT_LISTENER = LISTENER.replace(
    "time.sleep(1.5 if again",
    "while again == '0' and not (notes / 'leave').exists(): time.sleep(0.05)\ntime.sleep(0 if again",
)
"""Like the one above, but once it has heard, it stays until a file `leave` lies among its notes."""

FAILS_ONCE = """
import os, sys
sys.exit(3 if os.environ["SLURM_RESILIENCE_ATTEMPT"] == "1" else 0)
"""
"""In the first attempt, where the first task's failure may end the others before they begin."""


@dataclass(frozen=True)
class Foreign:
    """A folder with a run in it, and jobs that work on it."""

    jobs: Jobs

    @property
    def folder(self) -> Path:
        return self.jobs.folder

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.folder / "run")

    @property
    def marker(self) -> str:
        return f"foreign-{os.getpid()}-{self.folder.name}"

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TEST_MARKER": self.marker}

    def program(self, text: str) -> tuple[str, ...]:
        path = self.folder / "program.py"
        path.write_text(text)
        return (sys.executable, str(path), str(self.folder))

    def words(self, *words: str, run_dir: bool = True) -> list[str]:
        """srun-resilient with these options and this command."""
        where = [f"--run-dir={self.run.path}"] if run_dir else []
        return [sys.executable, "-m", "slurm_resilience.cli.srun_resilient", *where, *words]

    def submit(self, *words: str, **sbatch: object) -> str:
        """As the last line of a batch script on two nodes."""
        script = f"exec {shlex.join(self.words(*words))}"
        return self.jobs.submit(script, env=self.environment, marker=self.marker, nodes=2, job_name="foreign", **sbatch)

    def wrap(self, *words: str, options: tuple[str, ...] = ()) -> str:
        """By `sbatch --wrap`, from our folder, without naming the run's directory."""
        line = shlex.join(self.words(*words, run_dir=False))
        # The default directory is made where the job was submitted from.
        sbatch = ("env", f"--chdir={self.folder}", "sbatch", "--parsable", "--output=wrapped-%A.out")
        return self.jobs.ask(*sbatch, *options, "--wrap", line, env=self.environment).out.strip()

    def here(self, *words: str, before: tuple[str, ...] = ()) -> Completed:
        """From the shell, behind `before`, to the end."""
        argv = [*before, *self.words(*words)]
        return self.jobs.cluster.run(*argv, timeout_s=PATIENCE_S, env=self.environment)

    def ask(self, *words: str) -> Completed:
        """`slurm-resilience …`"""
        argv = (sys.executable, "-m", "slurm_resilience.cli.main", *words)
        return self.jobs.cluster.run(*argv, timeout_s=PATIENCE_S, env={"PYTHONPATH": str(ROOT), "COLUMNS": "300"})

    @property
    def chain(self) -> Chain:
        return Chain.of(Journal(self.run).read())

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.chain.attempts

    @property
    def causes(self) -> list[Cause | None]:
        return [attempt.ended.cause if attempt.ended is not None else None for attempt in self.attempts]

    def wait_noted(self, *names: str) -> None:
        wait_until(
            lambda: all((self.folder / name).exists() for name in names),
            lambda: f"{names} are not all among {sorted(path.name for path in self.folder.iterdir())}",
            PATIENCE_S,
        )

    def noted(self, name: str) -> str:
        return (self.folder / name).read_text()

    def wait_exit(self, job: str, code: int) -> None:
        self.jobs.wait_end(job, timeout_s=PATIENCE_S)
        shown = self.jobs.show(job)["ExitCode"]
        assert shown == f"{code}:0", f"{shown}; {self.jobs.output(job)}"

    def check_nothing_left(self) -> None:
        wait_until(lambda: leftovers(self.marker) == [], lambda: f"left over: {leftovers(self.marker)}", 120)
