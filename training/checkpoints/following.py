"""Keep a local copy of what of a mirrored run is looked at while it trains: all but weights and old episodes.

The copy has the layout of a run's folder. A checkpoint is there as an empty folder: only its name is of use.
"""

import contextlib
import threading
from pathlib import Path, PurePosixPath
from typing import Self

from guiagent.errors import GuiAgentError
from training.checkpoints.mirror import pull
from training.checkpoints.storage import Manifest, Storage

_SEGMENTS = 3  # newest ones of the trajectory store, of 64 MiB each; an older frame is not shown
_NAMES = ("config.toml", "metrics.jsonl", "finished.json")


class MirrorFollower:
    """Brings `folder` up to date with the newest snapshot of a mirrored run, every `every_s` seconds.

    `problem` says why the last round failed, in one line; "" if it did not.
    """

    def __init__(self, storage: Storage, folder: Path, every_s: float = 10.0) -> None:
        self.problem = ""
        self._storage, self._folder, self._every_s = storage, folder, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="mirror follower", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def round(self) -> None:
        """Fetch what is new. What is not there yet is fetched when it is."""
        try:
            if (manifest := self._storage.newest()) is not None:
                for name in _watched(manifest):
                    if name in manifest.files:
                        pull(self._storage, self._folder, under=name)
                for step in _checkpoints(manifest):
                    (self._folder / "checkpoints" / step).mkdir(parents=True, exist_ok=True)
            self.problem = ""
        except GuiAgentError as error:
            self.problem = str(error)
        except Exception as error:  # every storage has errors of its own
            self.problem = f"cannot reach {self._storage.url}: {' '.join(str(error).split())[:300]}"

    def _follow(self) -> None:
        while not self._ended.wait(self._every_s):
            with contextlib.suppress(OSError):
                self.round()


def _watched(manifest: Manifest) -> list[str]:
    segments = sorted(name for name in manifest.files if name.startswith("trajectories/segment-"))
    return [*_NAMES, *segments[-_SEGMENTS:]]


def _checkpoints(manifest: Manifest) -> set[str]:
    paths = (PurePosixPath(name) for name in manifest.files)
    return {path.parts[1] for path in paths if path.parts[0] == "checkpoints" and len(path.parts) > 2}
