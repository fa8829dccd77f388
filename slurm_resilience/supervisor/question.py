"""One question at a time to somebody who may not answer for half a minute, asked beside what must not wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from slurm_resilience.errors import SlurmError

_T = TypeVar("_T")


class Question(Generic[_T]):
    """Each is asked in a thread of its own, which ends with the answer.

    Not a child process: the answer is a value of ours, and a thread that only waits for `squeue` costs nothing. It is a
    daemon: a controller that never answers keeps nobody from leaving. Whoever forks with Python code in between
    (Popen's preexec_fn) lets it settle before.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._answers: queue.SimpleQueue[_T | SlurmError] = queue.SimpleQueue()

    @property
    def under_way(self) -> bool:
        """Asked, and the answer not yet fetched."""
        return self._thread is not None

    def ask(self, what: Callable[[], _T]) -> None:
        """Does nothing where one is under way."""
        if self._thread is not None:
            return

        def work() -> None:
            try:
                answer: _T | SlurmError = what()
            except SlurmError as error:
                answer = error
            self._answers.put(answer)

        self._thread = threading.Thread(target=work, name=self._name, daemon=True)
        self._thread.start()

    def answer(self, *, seconds: float = 0.0) -> _T | SlurmError | None:
        """Waits for it `seconds` at most. None: there is none (yet)."""
        thread = self._thread
        if thread is None:
            return None
        thread.join(max(seconds, 0.0))
        if thread.is_alive():
            return None
        self._thread = None
        try:
            return self._answers.get_nowait()
        except queue.Empty:  # it raised what it should not, which Python has told on stderr
            return None

    def settle(self, seconds: float) -> None:
        """Wait until no thread of ours runs, `seconds` at most; an answer can be fetched afterwards."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))
