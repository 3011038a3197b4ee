"""Write checkpoints in a thread beside training, one at a time."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread


class Saver:
    """The thread that writes. What it raises is raised by the next `begin`, or by `settle`."""

    def __init__(self) -> None:
        self._running: Future[Path | None] | None = None
        self._thread: Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether something is being written."""
        return self._running is not None and not self._running.done()

    @property
    def failed(self) -> bool:
        """Whether the last write ended with an error that nobody has seen yet."""
        running = self._running
        return running is not None and running.done() and running.exception() is not None

    def begin(self, write: Callable[[], Path | None]) -> None:
        """Begin to write, once the write before has ended. Raises what that one raised."""
        self.settle()
        running = self._running = Future()

        def work() -> None:
            try:
                running.set_result(write())
            except BaseException as error:
                running.set_exception(error)

        # No pool's thread, which Python would wait for at its end, whatever happens to the other processes.
        self._thread = Thread(target=work, name="checkpoint", daemon=True)
        self._thread.start()

    def settle(self) -> Path | None:
        """Wait for what is being written, and return it; None if nothing was begun. Raises what it raised."""
        running, self._running = self._running, None
        if running is None:
            return None
        self._join()
        return running.result()

    def _join(self) -> None:
        """Wait until the thread itself is gone: one that Python's end meets in C++ aborts the process."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def wait(self) -> None:
        """Wait for what is being written, however it ends: `settle` says how."""
        if self._running is not None:
            wait([self._running])
