"""What is said and done about room while there is some: one look ahead after each save, and a ballast put by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from slurm_resilience.checkpoint.retention import Policy, plan_retention
from slurm_resilience.checkpoint.space.outlook import Fine, Outlook, Tight, TooSmall, outlook, saves_ahead
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.errors import ManifestError
from slurm_resilience.manifest.chain import Chain, live_of
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import SaveReason
from slurm_resilience.training.kept_ballast import KeptBallast
from slurm_resilience.training.room import bytes_of, live_ones, must_stay, needs_like, say_on_stderr
from slurm_resilience.training.shortage import Needs


class LookAhead:
    """On rank 0. Never raises: at worst nobody is warned."""

    def __init__(
        self,
        *,
        journal: Journal,
        policy: Policy,
        ballast: KeptBallast,
        room: Callable[[], Room],
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self._journal = journal
        self._policy = policy
        self._ballast = ballast
        self._room = room
        self._say = say
        self._fitting: int | None = None
        """How many saves fitted when it was last said; None: as many as were looked at."""

    def begin(self, expected: Needs | None) -> None:
        """`expected`: what a save will take, where no checkpoint tells yet."""
        with contextlib.suppress(OSError):
            self._ballast.drop_unwanted()
        self._look(expected, just_saved=False)

    def after_commit(self) -> None:
        """Before retention lets go of anything: what it is about to free is reckoned with, not waited for."""
        self._look(None, just_saved=True)

    def _look(self, expected: Needs | None, *, just_saved: bool) -> None:
        with contextlib.suppress(ManifestError, OSError):
            chain = Chain.of(self._journal.read())
            live = live_ones(chain)
            needs = needs_like(live[-1].committed) if live else expected
            if needs is None:
                return
            going_bytes = self._about_to_go_bytes(chain)
            self._warn(self._outlook(chain, needs, going_bytes))
            if not just_saved or not live:
                return
            if live[-1].committed.reason is SaveReason.FINAL:
                self._ballast.release()  # nothing will be saved any more
            else:
                spare_bytes = max(0, needs.bytes - going_bytes)
                self._ballast.keep(bytes_of(live[-1].committed), spare_bytes=spare_bytes)

    def _about_to_go_bytes(self, chain: Chain) -> int:
        going = {each.checkpoint for each in plan_retention(live_of(chain.checkpoints), self._policy).forget}
        return sum(bytes_of(each.committed) for each in live_ones(chain) if each.committed.checkpoint in going)

    def _outlook(self, chain: Chain, needs: Needs, going_bytes: int) -> Outlook:
        now = self._room()
        now = replace(now, free_bytes=now.free_bytes + going_bytes)
        if now.quota_left_bytes is not None:
            now = replace(now, quota_left_bytes=now.quota_left_bytes + going_bytes)
        keep_last = self._policy.keep_last
        coming = saves_ahead(
            self._may_go_bytes(chain),
            next_bytes=needs.bytes,
            files=needs.files,
            keep_last=keep_last,
            count=keep_last + 1,
        )
        return outlook(now, coming)

    def _may_go_bytes(self, chain: Chain) -> list[int]:
        """Of those that are kept as the last few only: more saves take their places."""
        kept = {each.checkpoint for each in plan_retention(live_of(chain.checkpoints), self._policy).keep}
        stay = must_stay(chain, self._policy)
        live = live_ones(chain)
        return [
            bytes_of(each.committed)
            for each in live
            if each is live[-1] or (each.committed.checkpoint in kept and each.committed.checkpoint not in stay)
        ]

    def _warn(self, seen: Outlook) -> None:
        match seen:
            case Fine():
                self._fitting = None
            case Tight(saves, why):
                self._say_once(saves, why)
            case TooSmall(why):
                self._say_once(0, why)

    def _say_once(self, fitting: int, why: str) -> None:
        if fitting != self._fitting:
            self._say(f"little room in {self._journal.run.checkpoints}: {why}")
        self._fitting = fitting
