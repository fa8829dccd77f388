"""Coming back, all ranks together: the newest checkpoint that every rank can read whole."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from slurm_resilience.clock import Clock
from slurm_resilience.commit.adoption import adopt
from slurm_resilience.errors import (
    CheckpointDamaged,
    CheckpointMismatch,
    CheckpointUnavailable,
    CheckpointUnsupported,
    NothingToResume,
)
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptResumed, CheckpointCommitted, CheckpointId
from slurm_resilience.manifest.records import CheckpointDamaged as DamagedRecord
from slurm_resilience.training.homecoming import Homecoming
from slurm_resilience.training.part_loading import PartLoading
from slurm_resilience.training.ranks import Ranks, on_rank_zero

STATE_FORMAT = 1
_READ_AGAIN_AFTER_S = (1.0, 4.0, 15.0)


@dataclass(frozen=True, slots=True)
class Resumed:
    checkpoint: CheckpointId
    step: int
    state: dict[str, Any]
    finished: bool
    """Whether the run's manifest says that the training had come to its own end there."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """What rank 0 found in the manifest."""

    loadable: tuple[CheckpointCommitted, ...]
    had_checkpoint: bool
    finished: bool
    finished_at: frozenset[int]
    """The steps at which the training has come to its own end: it may have been given more to do since."""
    quarantined: tuple[CheckpointId, ...]

    def ends_at(self, step: int) -> bool:
        return self.finished and (not self.finished_at or step in self.finished_at)


@dataclass(frozen=True, slots=True)
class _Verdict:
    kind: Literal["whole", "damaged", "unavailable", "unsupported", "mismatch"]
    why: str = ""


class Resumption:
    def __init__(
        self,
        *,
        ranks: Ranks,
        loading: PartLoading,
        journal: Journal,
        attempt: int,
        clock: Clock,
        from_scratch: bool,
        homecoming: Homecoming | None = None,
    ) -> None:
        """`homecoming` brings back what was only staged; without it nobody looks for that."""
        self._ranks = ranks
        self._loading = loading
        self._journal = journal
        self._attempt = attempt
        self._clock = clock
        self._from_scratch = from_scratch
        self._homecoming = homecoming

    def find(self, names: Collection[str]) -> Resumed | None:
        """The state to go on from, verified on every rank; None for a fresh start. Nothing is applied yet.

        Called by all ranks; all raise the same: NothingToResume, CheckpointMismatch, CheckpointUnsupported,
        CheckpointUnavailable, Fenced, PeersGone, or what the manifest raised on rank 0.
        """
        on_rank_zero(self._ranks, self._adopt)
        if self._homecoming is not None:
            self._homecoming.bring()
        offer = on_rank_zero(self._ranks, self._offer)
        for committed in offer.loadable:
            state = self._try(committed, names)
            if state is not None:
                self._note(committed.checkpoint, committed.step)
                return Resumed(committed.checkpoint, committed.step, state, offer.ends_at(committed.step))
        spoilt = any(self._ranks.all_gather(self._loading.spoilt))
        if offer.had_checkpoint and (spoilt or not self._from_scratch):
            aside = ", ".join(offer.quarantined)
            release = f"release one that is in quarantine ({aside}), " if aside else ""
            raise NothingToResume(
                f"run {self._journal.run.path} has had checkpoints and none of them can be loaded: look at them with "
                f"`slurm-resilience checkpoints verify`, {release}or set SLURM_RESILIENCE_FROM_SCRATCH=yes to start "
                "again at step 0"
            )
        self._note(None, 0)
        return None

    def _offer(self) -> _Offer:
        chain = Chain.of(self._journal.read())
        loadable = tuple(checkpoint.committed for checkpoint in chain.loadable())
        aside = [each for each in chain.checkpoints if each.state is CheckpointState.QUARANTINED]
        for each in aside:
            name, step = each.committed.checkpoint, each.committed.step
            if not loadable or step >= loadable[0].step:
                sys.stderr.write(f"slurm-resilience: {name} is in quarantine and not loaded: {each.why}\n")
        names = tuple(each.committed.checkpoint for each in aside)
        ends = frozenset(each.finished_step for each in chain.attempts if each.finished_step is not None)
        return _Offer(loadable, chain.ever_had_checkpoint, chain.finished, ends, names)

    def _adopt(self) -> None:
        """What an earlier attempt had written whole and didn't live to commit."""
        try:
            adopted = adopt(self._journal.run, attempt=self._attempt, clock=self._clock)
        except OSError as error:
            sys.stderr.write(f"slurm-resilience: the checkpoints' folders can't be looked through: {error}\n")
            return
        for committed in adopted:
            sys.stderr.write(
                f"slurm-resilience: checkpoint {committed.checkpoint} was whole when attempt "
                f"{committed.attempt} ended, and is committed now\n"
            )

    def _try(self, committed: CheckpointCommitted, names: Collection[str]) -> dict[str, Any] | None:
        """None: damaged, on whichever rank; the manifest says so now."""
        refusal = self._loading.refusal(committed)
        if refusal is not None:
            raise CheckpointMismatch(refusal)
        state, verdict = self._read(committed, names)
        verdicts: list[_Verdict] = self._ranks.all_gather(verdict)
        bad = [(rank, said) for rank, said in enumerate(verdicts) if said.kind != "whole"]
        if not bad:
            return state
        for rank, said in bad:
            if said.kind == "damaged":
                self._walk_back(committed, f"rank {rank}: {said.why}")
                return None
        rank, said = bad[0]
        text = f"rank {rank}: {said.why}"
        match said.kind:
            case "unavailable":
                raise CheckpointUnavailable(text)
            case "unsupported":
                raise CheckpointUnsupported(text)
            case _:
                raise CheckpointMismatch(text)

    def _read(self, committed: CheckpointCommitted, names: Collection[str]) -> tuple[dict[str, Any] | None, _Verdict]:
        try:
            state = self._load_patiently(committed)
        except CheckpointDamaged as error:
            return None, _Verdict("damaged", str(error))
        except CheckpointUnsupported as error:
            return None, _Verdict("unsupported", str(error))
        except CheckpointUnavailable as error:
            return None, _Verdict("unavailable", str(error))
        except CheckpointMismatch as error:
            return None, _Verdict("mismatch", str(error))
        return state, _judge(committed.checkpoint, state, names)

    def _load_patiently(self, committed: CheckpointCommitted) -> dict[str, Any]:
        for pause_s in _READ_AGAIN_AFTER_S:
            with contextlib.suppress(CheckpointUnavailable):
                return self._loading.load(committed)
            self._clock.sleep(pause_s)
        return self._loading.load(committed)

    def _walk_back(self, committed: CheckpointCommitted, why: str) -> None:
        if self._ranks.rank == 0:
            sys.stderr.write(
                f"slurm-resilience: checkpoint {committed.checkpoint} is damaged ({why}): "
                "going back to the one before\n"
            )
        self._write_down(DamagedRecord(committed.checkpoint, self._attempt, why))

    def _note(self, checkpoint: CheckpointId | None, step: int) -> None:
        self._write_down(AttemptResumed(self._attempt, checkpoint, step, self._ranks.world_size))

    def _write_down(self, record: DamagedRecord | AttemptResumed) -> None:
        on_rank_zero(self._ranks, lambda: self._append(record))

    def _append(self, record: DamagedRecord | AttemptResumed) -> None:
        self._journal.append(record, fence=self._attempt)


def _judge(checkpoint: CheckpointId, state: dict[str, Any], names: Collection[str]) -> _Verdict:
    if state.get("format") != STATE_FORMAT:
        return _Verdict("unsupported", f"checkpoint {checkpoint} holds a training of format {state.get('format')!r}")
    saved = set(state["objects"])
    if saved != set(names):
        missing = ", ".join(sorted(saved - set(names))) or "nothing"
        extra = ", ".join(sorted(set(names) - saved)) or "nothing"
        return _Verdict(
            "mismatch",
            f"checkpoint {checkpoint} holds other objects than are registered: registered and not in it: {extra}; "
            f"in it and not registered: {missing}",
        )
    return _Verdict("whole")
