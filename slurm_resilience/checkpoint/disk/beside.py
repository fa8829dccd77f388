"""Work in a second thread: it ends before we go on, and its exception comes out."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from types import TracebackType


class OtherSideFailed(Exception):
    """Raised by the first thread when it can't go on because of the second, whose exception says why."""


class Beside:
    """`with Beside(work, stop=…)`: `work` runs in a thread of its own until it returns.

    Leaving the block waits for it. Leaving it by an exception calls `stop` first, which has to make `work` return.
    """

    def __init__(self, work: Callable[[], None], *, stop: Callable[[], None], name: str) -> None:
        self._work = work
        self._stop = stop
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Beside:  # noqa: PYI034 typing.Self is not in Python 3.10
        """Raises OSError where the job's limit allows no more threads: a refusal like any other of the system's."""
        try:
            self._thread.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stop()
        self._thread.join()
        others, self._error = self._error, None
        try:
            if others is not None and (error is None or isinstance(error, OtherSideFailed)):
                raise others from None
        finally:
            del others  # an error that refers to itself would keep the memory its frames refer to

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 it is raised again where somebody can see it
            self._error = error
