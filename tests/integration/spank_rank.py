"""A task without torch that heeds the relay's page: `spank_rank.py FOLDER [deaf]`.

It writes FOLDER/JOB.RANK.json when it has begun, and again with what it saw when it was asked to stop; then it leaves.
A child of it, which has handlers for all three signals, notes what it heard. `deaf`: it stays until it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from slurm_resilience.signals.runtime_folder import StopPageReader

CHILD = """
import signal, sys, time
def heard(number, frame):
    with open(sys.argv[1], "a") as file:
        file.write(f"{number}\\n")
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, heard)
print("here", flush=True)
time.sleep(300)
"""


def main() -> None:
    folder, deaf = Path(sys.argv[1]), "deaf" in sys.argv
    relay = Path(os.environ["SLURM_RESILIENCE_RELAY"])
    name = f"{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_PROCID']}"
    heard = folder / f"{name}.heard"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(heard)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    told: dict[str, Any] = {"relay": str(relay), "pid": os.getpid(), "node": os.environ["SLURMD_NODENAME"]}

    def tell(**more: object) -> None:
        told.update(more)
        unnamed = folder / f".{name}.tmp"
        unnamed.write_text(json.dumps(told))
        unnamed.rename(folder / f"{name}.json")

    with StopPageReader(relay) as page:
        tell()
        while deaf or not page.asked():
            time.sleep(0.05)
        request = page.read()
        assert request is not None
        now_s = time.monotonic()
        tell(reason=request.reason.name, because=request.because, seconds=request.deadline_s - now_s)
    time.sleep(0.5)  # what would come to the child comes now
    child.send_signal(signal.SIGKILL)
    child.wait()


if __name__ == "__main__":
    main()
