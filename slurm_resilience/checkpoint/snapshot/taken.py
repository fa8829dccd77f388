"""A snapshot that was taken, and may still be in the making."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurm_resilience.checkpoint.disk.arena import Arena
from slurm_resilience.checkpoint.snapshot.copying import Later, Rising
from slurm_resilience.checkpoint.snapshot.watermark import Watermark
from slurm_resilience.checkpoint.writer.job import WriteJob

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.snapshot.device_copying import DeviceCopying


class Taken:
    def __init__(
        self,
        job: WriteJob,
        arena: Arena,
        watermark: Watermark,
        *,
        rising: Rising,
        later: Later | None,
        devices: Sequence[DeviceCopying],
    ) -> None:
        self.job = job
        self.arena = arena
        self.watermark = watermark
        self.lent = False
        """Whether a writer reads the arena."""
        self._rising = rising
        self._later = later
        self._devices = devices

    def wait(self) -> None:
        """When this returns, the state may be changed; what lies on a GPU, by what the current stream gets from now on.

        Raises ChangedMeanwhile if it was changed before, and what copying came to otherwise. Then the snapshot is
        spoilt, and nothing is written.
        """
        try:
            for device in self._devices:
                device.agree()
            if self._later is not None:
                self._later.join()
        except BaseException:
            self._rising.spoil()
            raise

    def settle(self) -> None:
        """Until nobody copies any more, well or badly."""
        for device in self._devices:
            with contextlib.suppress(Exception):
                device.join()
        if self._later is not None:
            with contextlib.suppress(Exception):
                self._later.join()

    def lend(self) -> None:
        self.lent = True

    def give_back(self) -> None:
        self.lent = False
