"""A bare rank in a step with Slurm's plugin: a relay on the node hears the signals and writes the pages.

The ranks have SIGTERM, SIGUSR1 and SIGUSR2 blocked there, and so have their children. Where the relay is not there, or
not there any more, nobody would hear: then the rank hears for itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.process_identity import Identity, Liveness, liveness
from slurm_resilience.signals.runtime_folder import StopPageReader
from slurm_resilience.signals.stop_request import StopRequest
from slurm_resilience.training.stop_source import SIGNALS, SignalStopSource, StopSource

LOOK_S = 5.0
"""How often a rank looks whether its relay still lives."""


class RelayStopSource:
    """The relay's stop page; from the moment it is gone, the rank's own signals."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._page: StopPageReader | None = None
        self._signals: StopSource = SignalStopSource(clock)
        self._looked_s = 0.0

    @property
    def there(self) -> bool:
        """Whether the relay's pages are used."""
        return self._page is not None

    def open(self) -> None:
        why = whats_wrong(self._folder)
        page = StopPageReader(self._folder)
        if why is None:
            try:
                page.open()
            except (OSError, ValueError) as error:
                why = f"its stop page can't be read ({error})"
        self._looked_s = self._clock.monotonic_s()
        if why is not None:
            self._do_without(why)
            return
        self._page = page

    def asked(self) -> bool:
        page = self._page
        if page is None:
            return self._signals.asked()
        if page.asked():
            return True
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            why = whats_wrong(self._folder)
            if why is not None:
                self._do_without(why)
                return self._signals.asked()
        return False

    def read(self) -> StopRequest | None:
        if self._page is None:
            return self._signals.read()
        return self._page.read()

    def tell_run(self, directory: Path) -> None:
        """Which run this is: the relay and the plugin bring there what they have seen. Never raises for it."""
        if self._page is None or "\n" in str(directory):
            return
        unnamed = self._folder / f".run.{os.getpid()}"
        try:
            unnamed.write_text(f"{directory}\n", encoding="utf-8", errors="surrogateescape")
            unnamed.replace(self._folder / "run")
        except OSError as error:
            _say(f"the relay can't be told which run this is: {error.strerror}")

    def close(self) -> None:
        self._signals.close()
        if self._page is not None:
            self._page.close()
            self._page = None

    def _do_without(self, why: str) -> None:
        _say(f"no relay in {self._folder} ({why}): this rank listens to its own signals")
        if self._page is not None:
            self._page.close()
            self._page = None
        self._signals.open()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # what has come meanwhile is delivered now


def whats_wrong(folder: Path) -> str | None:
    """None: the folder is ours, and who made it lives, as far as can be told from here (a container may not know)."""
    try:
        status = folder.lstat()
        if status.st_uid != os.getuid():
            return f"it belongs to user {status.st_uid}"
        owner = Identity(**json.loads((folder / "owner.json").read_bytes()))
    except OSError as error:
        return error.strerror or str(error)
    except (ValueError, TypeError):
        return "its owner.json can't be read"
    return f"process {owner.pid} is gone" if liveness(owner) is Liveness.GONE else None


def _say(sentence: str) -> None:
    sys.stderr.write(f"slurm-resilience: {sentence}\n")
