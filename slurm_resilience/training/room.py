"""Making room for the next try of a save that met a full disk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

from slurm_resilience.checkpoint.retention import Policy, plan_retention
from slurm_resilience.checkpoint.space.leftovers import Found, leftovers
from slurm_resilience.checkpoint.space.relief import Relief, Sized, Sweep, plan_relief
from slurm_resilience.checkpoint.space.relieve import Relieved, relieve
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.checkpoint.space.survey import folders_of
from slurm_resilience.checkpoint.store import CheckpointStore
from slurm_resilience.commit.refusal import NO_ROOM
from slurm_resilience.errors import CheckpointError, ManifestError
from slurm_resilience.manifest.chain import Chain, Checkpoint, CheckpointState, live_of
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointCommitted, CheckpointForgotten, CheckpointId
from slurm_resilience.training.kept_ballast import KeptBallast
from slurm_resilience.training.shortage import Missing, Needs, NobodyKnows, RoomAgain, Shortage, shortage

_BESIDE_A_PART_BYTES = 16 << 10
"""Its receipt, its folder's share, and the block that its last byte falls into."""
_FILES_A_PART = 2
_ROUNDS = 3
"""What was refused for want of a line's room in the manifest works once something is gone, what can't be deleted has to
be made up for, and a checkpoint that shares files with another frees less than it looks."""


def say_on_stderr(sentence: str) -> None:
    sys.stderr.write(f"slurm-resilience: {sentence}\n")


def bytes_of(committed: CheckpointCommitted) -> int:
    return sum(part.bytes for part in committed.parts)


def needs_of(size_bytes: int, parts: int) -> Needs:
    """What a save of so many bytes in so many parts takes."""
    return Needs(size_bytes + parts * _BESIDE_A_PART_BYTES, parts * _FILES_A_PART)


def needs_like(committed: CheckpointCommitted) -> Needs:
    """What a save like that one takes."""
    return needs_of(bytes_of(committed), len(committed.parts))


def live_ones(chain: Chain) -> list[Checkpoint]:
    """In the order of their commits."""
    return [each for each in chain.checkpoints if each.state is CheckpointState.LIVE]


def must_stay(chain: Chain, policy: Policy) -> set[str]:
    """What is kept for more than comfort: the newest, the last verified, the pinned, the best, the milestones."""
    return {each.checkpoint for each in plan_retention(live_of(chain.checkpoints), replace(policy, keep_last=1)).keep}


class RoomMaker:
    """On rank 0. Never raises: who comes here has one trouble already."""

    def __init__(
        self,
        *,
        journal: Journal,
        store: CheckpointStore,
        attempt: int,
        policy: Policy,
        ballast: KeptBallast,
        room: Callable[[], Room],
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self._hands = _Hands(journal, store, attempt, policy, ballast)
        self._journal = journal
        self._attempt = attempt
        self._policy = policy
        self._ballast = ballast
        self._room = room
        self._say = say
        self._fooled = False

    def make_room(
        self, number: int | None, needs: Needs | None = None, *, sparing: AbstractSet[str] = frozenset()
    ) -> bool:
        """After a save was refused with errno `number`: whether another try may succeed. No for other refusals.

        `needs`: of that save; None: as the newest checkpoint. `sparing`: folders that are being written now.
        """
        if number not in NO_ROOM:
            return False
        tried: set[str] = set()
        freed = False
        for _ in range(_ROUNDS):
            chain = self._chain()
            if chain is None:
                return False
            if needs is None and (live := live_ones(chain)):
                needs = needs_like(live[-1].committed)
            short = shortage(number, needs, self._measured(), fooled=self._fooled)
            if isinstance(short, RoomAgain):
                self._fooled = not freed
                return True
            relief = self._plan(chain, short, sparing | tried)
            enough = partial(self._enough, needs, short)
            outcome = relieve(relief, self._hands, enough=enough, say=self._say)
            if isinstance(outcome, Relieved):
                return True
            swept = {step.checkpoint for step in relief.steps if isinstance(step, Sweep)}
            if not outcome.done and not swept:
                self._say(outcome.why)
                return False
            tried |= swept
            freed = freed or bool(outcome.done)
        return False

    def saved(self) -> None:
        """Whatever stood in the way is gone."""
        self._fooled = False

    def _chain(self) -> Chain | None:
        """None: nobody can say what may go, or nothing here is ours any more."""
        try:
            chain = Chain.of(self._journal.read())
        except ManifestError as error:
            self._say(f"no room can be made, since nobody can say what may go: {error}")
            return None
        newest = chain.newest_attempt
        return chain if newest is None or newest.number <= self._attempt else None

    def _enough(self, needs: Needs | None, short: Shortage) -> bool | None:
        room = self._measured()
        if isinstance(short, NobodyKnows) or needs is None or room is None:
            return None
        return room.bytes >= needs.bytes and (room.free_inodes is None or room.free_inodes >= needs.files)

    def _measured(self) -> Room | None:
        try:
            return self._room()
        except OSError:
            return None

    def _plan(self, chain: Chain, short: Shortage, sparing: AbstractSet[str]) -> Relief:
        known = short.bytes if isinstance(short, Missing) and not short.files else None
        live = [Sized(each.committed.checkpoint, bytes_of(each.committed)) for each in live_ones(chain)]
        return plan_relief(
            missing_bytes=known,
            left_behind=self._left_behind(chain, sparing),
            live=live,
            must_stay=must_stay(chain, self._policy),
            ballast_bytes=self._ballast.held_bytes(),
        )

    def _left_behind(self, chain: Chain, sparing: AbstractSet[str]) -> list[Found]:
        """What dead attempts left, and what is forgotten and not deleted yet."""
        try:
            folders = folders_of(self._journal.run.checkpoints)
        except OSError as error:
            self._say(f"what earlier attempts left can't be looked through: {error}")
            return []
        found = [each for each in folders if each.bytes and each.checkpoint not in sparing]
        by_state = {each.committed.checkpoint: each.state for each in chain.checkpoints}
        named = {name for name, state in by_state.items() if state is not CheckpointState.FORGOTTEN}
        forgotten = by_state.keys() - named
        dead = leftovers(found, named=named, attempt=self._attempt)
        return dead + [each for each in found if each.checkpoint in forgotten and each not in dead]


@dataclass(frozen=True, slots=True)
class _Hands:
    """As `space.relieve.Hands` says."""

    journal: Journal
    store: CheckpointStore
    attempt: int
    policy: Policy
    ballast: KeptBallast

    def sweep(self, checkpoint: str) -> None:
        self.store.delete(checkpoint)

    def forget(self, checkpoint: str, why: str) -> None:
        with self.journal.writing() as writer:
            # Under the lock: somebody may have pinned it meanwhile, and the newest may have become damaged.
            if checkpoint in must_stay(Chain.of(writer.lines()), self.policy):
                raise CheckpointError(f"{checkpoint} has to stay now")
            writer.append(CheckpointForgotten(CheckpointId(checkpoint), why), fence=self.attempt)
        self.store.delete(checkpoint)

    def release_ballast(self) -> None:
        self.ballast.release()
