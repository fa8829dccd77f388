"""One run of a canary: srun-resilient as our child, and what its run directory shows of the training."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_resilience import command
from slurm_resilience.clock import Clock
from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import CommandError, ManifestUnsupported, ResilienceError
from slurm_resilience.manifest.agent_record import read_agent_record
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointCommitted
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.rehearsal.canary_plan import Part

LEAVE_S = 30.0
"""How long the training may take to end when the canary is given up."""
_TAIL_BYTES = 4096
_OUR_VOICE = "srun-resilient: "


@dataclass
class CanaryRun:
    part: Part
    environment: Mapping[str, str]
    clock: Clock
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.part.run)

    @property
    def output(self) -> Path:
        return self.part.run.with_name(f"{self.part.name.partition(' ')[0]}.out")

    def start(self) -> None:
        """Raises OSError."""
        with self.output.open("ab") as output:
            self._child = subprocess.Popen(
                self.part.argv,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def code(self) -> int | None:
        """As the shell would say it; None: it runs."""
        assert self._child is not None
        code = self._child.poll()
        return None if code is None else code if code >= 0 else 128 - code

    def ask_to_stop(self) -> None:
        """As `slurm-resilience stop` does. Raises OSError."""
        replace_durably(self.run.stop_file, b"slurm-resilience canary\n")

    def end(self) -> None:
        """Nothing of it runs any more, as far as signals can see to it. Harmless where that is so already."""
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LEAVE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def attempt(self, number: int) -> Attempt | None:
        """None: it has not begun, or its journal can't be read now."""
        chain = self.chain()
        return None if chain is None else chain.attempt(number)

    def chain(self) -> Chain | None:
        try:
            journal = Journal(self.run, clock=self.clock)
            return Chain.of(journal.read()) if journal.exists() else None
        except (ResilienceError, OSError):
            return None

    def step(self, number: int) -> int:
        """The last one that any rank of attempt `number` is known to have completed; -1: none is."""
        steps = [-1]
        for path in self.run.agent_records(number):
            with contextlib.suppress(ManifestUnsupported, OSError):
                record = read_agent_record(path)
                steps += [rank.step for rank in record.ranks] if record is not None else []
        return max(steps)

    def verify(self, committed: CheckpointCommitted, *, timeout_s: float) -> str | None:
        """Why the checkpoint is not whole; None: every byte of it is as it was written."""
        words = ("checkpoints", "verify", str(self.run.path), committed.checkpoint, "--json", "--no-progress")
        try:
            done = command.run(
                [sys.executable, "-m", "slurm_resilience.cli.main", *words], timeout_s=timeout_s, env=self.environment
            )
        except CommandError as error:
            return str(error)
        if done.code == 0:
            return None
        try:
            [verdict] = json.loads(done.out)
            return f"{verdict['verdict']}: {verdict['why']}"
        except (ValueError, KeyError, TypeError):
            return done.complaint

    def triaged(self, number: int) -> str | None:
        """Triage's sentence about attempt `number`, with what it advises; None: it can name no cause."""
        from slurm_resilience.supervisor.triage_of_run import Asked, account_of_run

        asked = Asked(slurm=None, commands=None, say=lambda _: None, extra=(self.output,))
        try:
            account = account_of_run(self.part.run, number, asked)
        except (ResilienceError, OSError):
            return None
        if not account.named:
            return None
        quote = f" ({account.quotes[0].text})" if account.quotes else ""
        return account.sentence + quote + (f"; what helps: {account.advice.do}" if account.advice is not None else "")

    def last_words(self) -> str:
        """The last line that the training has written, for where the journal says nothing."""
        try:
            with self.output.open("rb") as output:
                output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = output.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].removeprefix(_OUR_VOICE)[:300] if lines else ""
