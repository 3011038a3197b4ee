"""A run as its files tell it: what has changed since a page last asked, and episodes and frames on request.

The files may be written meanwhile, torn at their ends, missing, or not there yet. Nothing is written, no link
below the run's folder is followed, and nothing is read that is not named here.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from os import fstat, listdir
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from eval.report.viewer import media_type, plain
from eval.watch.episodes import summary, whole
from eval.watch.figures import Figures
from guiagent.storage.following import LineFollower, Place, StoreFollower
from guiagent.storage.plain import plain_file, plain_folder, read_plain
from guiagent.storage.segments import segment_name

EPISODES = 40  # that are listed at once
_MOST_CONFIG = 200_000  # bytes
_MOST_FRAMES = 64  # newest frames by device, where no pool answers
_CHECKPOINT = re.compile(r"step-([0-9]{6,9})")
_RECENT_S = 120.0  # a run without a lock that changed since is taken for running


class Cursor(NamedTuple):
    """What a page has already: each field is what `changes` last told it."""

    epoch: int = -1
    lines: int = 0
    stride: int = 0
    rows: int = 0
    events: int = 0
    episode: tuple[int, int] = (0, -1)
    settings: float = 0.0


class WatchedRun:
    """Follows the run in `root`; `resume` is the command that goes on with it. Thread-safe.

    `problem` is asked what to say of how the files came here; "" for nothing.
    """

    def __init__(self, root: Path, name: str, resume: str, problem: Callable[[], str] = str) -> None:
        self._root, self._name, self._resume, self._mirrored = root, name, resume, problem
        self._lock = RLock()
        self._lines = LineFollower(root, "metrics.jsonl")
        self._store = StoreFollower(root, "trajectories")
        self._figures = Figures()
        self._epoch = 0
        self._changed = 0.0  # seconds since the epoch: the newest change of the run's files
        self._settings = (0.0, "")
        self._checkpoints: set[int] = set()
        self._problem = ""

    def changes(self, cursor: Cursor, *, episodes: int = EPISODES) -> dict[str, Any]:
        """Return the run's state, and what was added since `cursor`; all of it if the run began anew."""
        with self._lock:
            self._refresh()
            figures = self._figures
            if cursor.epoch != self._epoch:
                cursor = Cursor()
            told: dict[str, Any] = {
                "epoch": self._epoch,
                "status": self._status(),
                "lines": figures.lines,
                "events_seen": figures.events,
                "events": figures.events_since(cursor.events),
                "episodes": self._newer(cursor.episode, episodes),
            }
            if cursor.lines != figures.lines:
                kept = cursor.stride == figures.curves.stride
                told["curves"] = figures.curves.columns(max(0, cursor.rows - 1) if kept else 0)
                told["latest"] = figures.latest
                told["tasks"] = [t.row(name) for name, t in figures.tasks.items() if t.line > cursor.lines]
            if cursor.settings != self._settings[0]:
                told["settings"] = {"changed": self._settings[0], "config": self._settings[1]}
            return told

    def earlier(self, before: tuple[int, int]) -> list[dict[str, Any]]:
        """Return episodes that were committed before the one at a segment and offset, the newest first."""
        with self._lock:
            return self._summaries(self._store.newest(EPISODES, before))

    def episode(self, at: tuple[int, int]) -> dict[str, Any]:
        """Return an episode step by step. Raises KeyError if there is none."""
        with self._lock:
            place = self._store.at(*at)
            return whole(place, self._store.trajectory(place))

    def frame(self, hash: str) -> tuple[str, bytes]:
        """Return a stored frame's media type and bytes. Raises KeyError if there is no such picture."""
        with self._lock:
            data = self._store.frame(hash)
        media = media_type(data)
        if media is None:
            raise KeyError(hash)
        return media, data

    def newest_frames(self) -> list[dict[str, Any]]:
        """Return the newest frame of each device, for a run whose farm cannot be looked at."""
        with self._lock:
            recent = self._summaries(self._store.newest(2 * _MOST_FRAMES))
        by_device: dict[str, dict[str, Any]] = {}
        for one in recent:
            if one["frame"] and len(by_device) < _MOST_FRAMES:
                by_device.setdefault(one["device"], one)
        keys = ("device", "frame", "task", "verdict")
        return [{key: one[key] for key in keys} for _, one in sorted(by_device.items())]

    def _refresh(self) -> None:
        self._problem = ""
        self._read_settings()
        self._read_lines()
        self._read_checkpoints()
        self._store.refresh()
        for parts in (("metrics.jsonl",), ("config.toml",)):
            self._changed = max(self._changed, self._modified(*parts))
        if newest := self._store.newest(1):
            self._changed = max(
                self._changed, self._modified("trajectories", segment_name(newest[0].segment))
            )

    def _read_settings(self) -> None:
        changed = self._modified("config.toml")
        if changed != self._settings[0]:
            with suppress(OSError):
                text = read_plain(self._root, "config.toml", most=_MOST_CONFIG).decode(errors="replace")
                self._settings = changed, plain(text, _MOST_CONFIG)

    def _read_lines(self) -> None:
        try:
            while lines := self._lines.read():
                if self._lines.epoch != self._epoch:
                    self._epoch = self._lines.epoch
                    self._figures, self._checkpoints = Figures(), set()
                for line in lines:
                    self._figures.add(line)
        except OSError as error:
            self._problem = f"metrics.jsonl cannot be read: {error.strerror or error}"

    def _read_checkpoints(self) -> None:
        try:
            with plain_folder(self._root, "checkpoints") as folder:
                names = listdir(folder)
        except OSError:
            return
        kept = {int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))}
        for step in sorted(kept - self._checkpoints):
            self._figures.event("checkpoint", step, f"checkpoint of step {step:,}")
        self._checkpoints |= kept

    def _newer(self, than: tuple[int, int], most: int) -> list[dict[str, Any]]:
        places = [p for p in self._store.newest(most) if (p.segment, p.offset) > than]
        return self._summaries(places)

    def _summaries(self, places: list[Place]) -> list[dict[str, Any]]:
        told = []
        for place in places:
            with suppress(KeyError):  # not whole: it will be again, or is told by `damage`
                told.append(summary(place, self._store.trajectory(place)))
        return told

    def _status(self) -> dict[str, Any]:
        running = _is_locked(self._root)
        damaged = self._figures.damaged
        problems = [
            self._mirrored(),
            self._problem,
            self._store.damage,
            f"{damaged} lines of metrics.jsonl are no updates and are left out" if damaged else "",
        ]
        return {
            "name": self._name,
            "resume": self._resume,
            "state": self._state(running),
            "changed": self._changed,
            "now": time.time(),
            "problems": [problem for problem in problems if problem],
        }

    def _state(self, running: bool) -> str:
        if self._modified("finished.json"):
            return "finished"
        if running or time.time() - self._changed < _RECENT_S:
            return "training" if self._figures.lines else "starting"
        latest = self._figures.latest
        if latest and latest["step"] >= latest.get("steps", float("inf")):
            return "finished"
        return "stopped" if self._changed else "waiting"

    def _modified(self, *parts: str) -> float:
        """When a plain file of the run was last written, in seconds since the epoch; 0 if it is not there."""
        try:
            with plain_file(self._root, *parts) as file:
                return fstat(file).st_mtime
        except OSError:
            return 0.0


def _is_locked(root: Path) -> bool:
    """Whether a process holds the lock of the run's trajectory store, as the kernel lists it.

    Trying to take the lock would answer it too, and could be in the way of a run that is just starting.
    """
    try:
        with plain_file(root, "trajectories", "lock") as file:
            inode = fstat(file).st_ino
        held = Path("/proc/locks").read_text()
    except OSError:
        return False
    return any("FLOCK" in line and f":{inode} " in line for line in held.splitlines())
