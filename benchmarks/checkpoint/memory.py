"""Part "memory": how much more a training holds because it saves in the background. Each way in a process of its own:
memory that an earlier one has given back to the allocator would be found there, and not be counted.

As a program it is that process. Arguments: NAME FOLDER GIB. Prints what was measured, as JSON.
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import sys
import warnings
from pathlib import Path

from benchmarks.checkpoint.async_savers import Kept
from benchmarks.checkpoint.machine import PeakMemory, empty
from benchmarks.checkpoint.rounds import Measured, Method, NotHere, Part, measure
from benchmarks.checkpoint.stall import SAVERS, alone_in_a_group
from benchmarks.checkpoint.state import bytes_in, training_state

_SAVES = 2


def measure_memory(gib: float, folder: Path) -> Part:
    """Once: it hardly varies."""
    methods: dict[str, Method] = {name: functools.partial(_in_a_process, name, folder, gib) for name in SAVERS}
    return measure("memory", methods, 1, trial_round=False)


def _in_a_process(name: str, folder: Path, gib: float) -> Measured:
    command = [sys.executable, "-m", "benchmarks.checkpoint.memory", name, str(folder), str(gib)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    said: dict[str, float | str] = json.loads(ended.stdout.splitlines()[-1])
    if "missing" in said:
        raise NotHere(str(said["missing"]))
    return {quantity: float(value) for quantity, value in said.items()}


def held_while_saving(name: str, folder: Path, gib: float) -> Measured:
    """At most, in two saves one behind the other, with all that is kept from one to the other."""
    state = training_state(gib)
    empty(folder)
    with alone_in_a_group(), PeakMemory() as peak, contextlib.closing(Kept(folder)) as kept:
        saver = SAVERS[name](kept)
        for number in range(_SAVES):
            saving = saver.begin(state, f"step-{number:010}.a2")
            saver.before_update()
            saving.result()
    return {"more_gb": peak.more_bytes / 1e9, "images": peak.more_bytes / bytes_in(state)}


def main(name: str, folder: Path, gib: float) -> None:
    warnings.simplefilter("ignore")  # other libraries'
    try:
        print(json.dumps(held_while_saving(name, folder, gib)))
    except NotHere as reason:
        print(json.dumps({"missing": str(reason)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
