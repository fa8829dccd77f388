"""The ballast of a run: as large as a checkpoint, restored beside the training."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from slurm_resilience.checkpoint.space.ballast import Ballast, ballast_bytes
from slurm_resilience.checkpoint.space.ballast_keeper import BallastKeeper
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.checkpoint.tiers.throttle import Throttle

RESTORED_BYTES_PER_S = 100e6
"""Where the file system reserves nothing and blocks have to be written: slow enough to leave it to the training."""


class KeptBallast:
    """On rank 0."""

    def __init__(self, checkpoints: Path, *, cap_bytes: int, room: Callable[[], Room]) -> None:
        """`cap_bytes`: how large it gets at most; 0: none is kept."""
        self._ballast = Ballast(checkpoints, throttle=Throttle(RESTORED_BYTES_PER_S))
        self._keeper = BallastKeeper(self._ballast, room=room)
        self._cap_bytes = cap_bytes

    def held_bytes(self) -> int:
        """0 where nobody can say."""
        with contextlib.suppress(OSError):
            return self._ballast.held_bytes()
        return 0

    def release(self) -> None:
        """Raises OSError."""
        self._keeper.release()

    def keep(self, checkpoint_bytes: int, *, spare_bytes: int) -> None:
        """Begin to make it as large as a checkpoint, if `spare_bytes` stay free besides. Returns at once."""
        wanted_bytes = ballast_bytes(checkpoint_bytes, cap_bytes=self._cap_bytes)
        if self.held_bytes() < wanted_bytes:
            self._keeper.keep(wanted_bytes, spare_bytes=spare_bytes)

    def drop_unwanted(self) -> None:
        """What an earlier attempt kept, where none is kept any more. Raises OSError."""
        if self._cap_bytes == 0 and self.held_bytes():
            self.release()

    def wait(self) -> None:
        """Until what `keep` began is done."""
        self._keeper.wait()
