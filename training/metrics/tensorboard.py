"""Writes a run's figures as curves for TensorBoard, without a thread of its own.

TensorBoard's own writer has a thread, which dies with a traceback on a full disk. All figures are in
`metrics.jsonl` too, so a failing disk costs only the curves of the session, with a warning.
"""

import io
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

_log = logging.getLogger(__name__)


class TensorBoardWriter:
    """An event file in `folder`. Curves of earlier files end before `first_step`, the next step."""

    def __init__(self, folder: Path, first_step: int) -> None:
        self._folder = folder
        self._file = -1
        self._end = 0
        begun = Event(step=first_step, session_log=SessionLog(status=SessionLog.START))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            name = f"events.out.tfevents.{time():.6f}.{os.getpid()}"
            self._file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self._give_up(error)
        self._write(Event(file_version="brain.Event:2"), begun)

    def add(self, step: int, figures: Mapping[str, Any]) -> None:
        """Write the finite numbers among `figures`; those of a dict get the dict's name as a prefix."""
        values = [Summary.Value(tag=name, simple_value=number) for name, number in scalars(figures)]
        self._write(Event(step=step, summary=Summary(value=values)))

    def close(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file = -1

    def _write(self, *events: Any) -> None:
        """Write whole records; after the disk has failed, write nothing more in this session."""
        if self._file < 0:
            return
        records = io.BytesIO()
        writer = RecordWriter(records)
        for event in events:
            event.wall_time = time()
            writer.write(event.SerializeToString())
        view = memoryview(records.getvalue())
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            self._give_up(error)
        self._end += records.tell()

    def _give_up(self, error: OSError) -> None:
        self.close()
        _log.warning(
            "warning   no more curves in %s until the next start: %s; metrics.jsonl has all figures",
            self._folder,
            error.strerror,
        )


def scalars(figures: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the finite numbers of an update but its step; those of a dict get its name as a prefix."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{key}", number) for key, number in scalars(value))
        elif isinstance(value, int | float) and math.isfinite(value) and name != "step":
            yield name, value
