"""An append-only file of JSON lines for one writer, each line durable when `append` returns."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, Self, TypeVar

import msgspec

from guiagent.errors import DECODE_ERRORS, InfrastructureError

Line = TypeVar("Line")


class Journal(Generic[Line]):
    """A file of `type`s (msgspec Structs), one per line. Iterating reads them from the disk, in order.

    A line torn by a kill is cut off on opening; `recovered` is its number of bytes. Only one thread at a time
    may call `append`.

    Raises:
        InfrastructureError: another process is writing, the disk fails, or a line before the last is damaged.
    """

    def __init__(self, path: Path, type: type[Line]) -> None:
        self.path = path
        self.recovered = 0
        self._decode = msgspec.json.Decoder(type).decode
        self._file = -1
        self._end = 0  # of the durable lines
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._mend()
            _sync(path.parent)
        except BlockingIOError:
            self.close()
            raise InfrastructureError(
                f"another process is writing to {path}: wait for it or stop it"
            ) from None
        except OSError as error:
            self.close()
            raise InfrastructureError(f"cannot open {path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def __iter__(self) -> Iterator[Line]:
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield self._decode(line)
                except DECODE_ERRORS as error:
                    raise InfrastructureError(
                        f"{self.path}: line {number} is damaged ({error}); remove that line to go on"
                    ) from None

    def append(self, line: Line) -> None:
        """Append a line durably. If it raises, nothing of the line is in the file."""
        data = msgspec.json.encode(line) + b"\n"
        try:
            try:
                self._cut()
                view = memoryview(data)
                while view:
                    view = view[os.write(self._file, view) :]
                os.fsync(self._file)
            except BaseException:
                self._cut()
                raise
        except OSError as error:
            raise InfrastructureError(
                f"cannot write to {self.path}: {error.strerror}; make room or mend the disk, and try again"
            ) from error
        self._end += len(data)

    def _cut(self) -> None:
        """Cut off what a failed `append` left; if that fails now, the next `append` does it first."""
        if os.fstat(self._file).st_size > self._end:
            os.ftruncate(self._file, self._end)

    def _mend(self) -> None:
        data = self.path.read_bytes()
        self._end = data.rfind(b"\n") + 1
        self.recovered = len(data) - self._end
        if self.recovered:
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
