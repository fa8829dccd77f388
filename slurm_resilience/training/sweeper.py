"""Old checkpoints go: first the manifest forgets them, then their files are deleted, in the background."""

from __future__ import annotations

import sys
import threading
import time

from slurm_resilience.checkpoint.retention import Policy, plan_retention
from slurm_resilience.checkpoint.space.leftovers import Found, leftovers
from slurm_resilience.checkpoint.store import CheckpointStore
from slurm_resilience.errors import CheckpointError, Fenced, ManifestError
from slurm_resilience.manifest.chain import Chain, CheckpointState, live_of
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import CheckpointForgotten, CheckpointId

QUIET_S = 600.0
"""A folder that nobody has named is left alone while something has changed in it within this time."""


class Sweeper:
    """On rank 0."""

    def __init__(
        self,
        journal: Journal,
        store: CheckpointStore,
        *,
        attempt: int,
        policy: Policy,
    ) -> None:
        self._journal = journal
        self._store = store
        self._attempt = attempt
        self._policy = policy
        self._thread: threading.Thread | None = None

    def after_commit(self) -> None:
        """Never raises: an old checkpoint too many hurts nobody."""
        try:
            # Under one hold of the lock: what somebody pins meanwhile must not be forgotten.
            with self._journal.writing() as writer:
                plan = plan_retention(live_of(Chain.of(writer.lines()).checkpoints), self._policy)
                forgotten = [CheckpointForgotten(CheckpointId(each.checkpoint), each.why) for each in plan.forget]
                if forgotten:
                    writer.append(*forgotten, fence=self._attempt)
        except (ManifestError, Fenced) as error:
            sys.stderr.write(f"slurm-resilience: old checkpoints stay for now: {error}\n")
            return
        self._delete([record.checkpoint for record in forgotten])

    def sweep_leftovers(self) -> None:
        """What earlier attempts forgot and could not delete, or wrote and never committed. Never raises.

        To be called when what they wrote whole has been adopted.
        """
        try:
            chain = Chain.of(self._journal.read())
        except ManifestError:
            return  # who resumes from it says so
        forgotten = {c.committed.checkpoint for c in chain.checkpoints if c.state is CheckpointState.FORGOTTEN}
        named = {c.committed.checkpoint for c in chain.checkpoints} - forgotten
        try:
            found = [Found(name, 0) for name in self._store.found_on_disk()]
        except CheckpointError as error:
            sys.stderr.write(f"slurm-resilience: what dead attempts have left stays for now: {error}\n")
            return
        unnamed = leftovers(found, named=named | forgotten, attempt=self._attempt)
        dead = [each.checkpoint for each in found if each.checkpoint in forgotten]
        dead += [each.checkpoint for each in unnamed if self._is_old(each.checkpoint)]
        self._delete([CheckpointId(checkpoint) for checkpoint in dead])

    def _is_old(self, checkpoint: str) -> bool:
        """Somebody may be fetching or importing it at this moment."""
        try:
            return time.time() - (self._journal.run.checkpoints / checkpoint).stat().st_mtime > QUIET_S
        except OSError:
            return False

    def _delete(self, checkpoints: list[CheckpointId]) -> None:
        """In a thread: unlinking gigabytes takes a good part of a second, and nobody has to wait for it."""
        if not checkpoints:
            return
        # A daemon: what it doesn't get to before the process ends is left to the next attempt.
        thread = threading.Thread(target=self._unlink, args=(checkpoints, self._thread), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the job's limit allows no more of them
            self._unlink(checkpoints, self._thread)
        else:
            self._thread = thread

    def _unlink(self, checkpoints: list[CheckpointId], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        for checkpoint in checkpoints:
            self._unlink_one(checkpoint)

    def _unlink_one(self, checkpoint: CheckpointId) -> None:
        try:
            self._store.delete(checkpoint)
        except CheckpointError as error:
            sys.stderr.write(f"slurm-resilience: {checkpoint} could not be deleted: {error}\n")
