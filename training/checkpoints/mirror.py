"""Mirror a run's local folder to a URL, such as `s3://bucket/run`, in the background, and restore it.

The run works in the local folder and never waits for the storage. A file is a list of parts: a file that grew
keeps its parts and gets another, so that of a trajectory segment only the added bytes are uploaded. A restore
takes the newest whole snapshot and begins a new epoch, which ends the mirroring of any earlier writer.
"""

import contextlib
import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self

import msgspec
import xxhash

from guiagent.client.local_pool import state_dir
from guiagent.errors import DECODE_ERRORS, GuiAgentError, InfrastructureError
from training.checkpoints.storage import Manifest, Part, Storage
from training.checkpoints.upload import OWN, Uploader, checkpoint_of, listed, unchanged

_KEPT = 2  # snapshots: a reader has one round's time to fetch the objects of the newest but one
_TRIES = 5  # for a reader that is slower than that
_EVERY_S = 10.0
_LONGEST_PAUSE_S = 300.0


def pull(storage: Storage, folder: Path, under: str = "") -> Manifest | None:
    """Bring the files below `under` to the newest snapshot, verified, and return it; None if there is none.

    Bytes that are there already stay: a reader that pulls repeatedly fetches only what is new, and then opens
    `TrajectoryStore(folder / "trajectories", readonly=True)`.

    Raises:
        InfrastructureError: an object is damaged, a path leads out of the folder, the disk fails, or the
            writer removes snapshots faster than they can be fetched.
    """
    for _ in range(_TRIES):
        if (manifest := storage.newest()) is None:
            return None
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile, so there is a newer snapshot
            for name, parts in manifest.files.items():
                if name.startswith(under):
                    _fetch(storage, parts, folder, name)
            return manifest
    raise InfrastructureError(f"{storage.url} lacks objects, or changes faster than it is read: try again")


def _fetch(storage: Storage, parts: Sequence[Part], folder: Path, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise InfrastructureError(f"the manifest in {storage.url} names {name!r}, which is no file of a run")
    file = folder / path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        kept = unchanged(file, parts, file.stat().st_size)
        with file.open("r+b") as stream:
            stream.truncate(sum(part.bytes for part in kept))
            stream.seek(0, os.SEEK_END)
            for part in parts[len(kept) :]:
                stream.write(storage.get_part(part))
            stream.flush()
            os.fsync(stream.fileno())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InfrastructureError(f"cannot restore {file} from {storage.url}: {error}") from error


class _Own(msgspec.Struct, frozen=True):
    epoch: int
    writer: str


@dataclass
class MirrorStatus:
    """Progress of the mirroring. A failed round loses nothing: the next one uploads its files."""

    rounds: int = 0  # rounds that brought the URL up to date with the folder
    failures: int = 0
    error: str = ""  # of the last round; "" if it succeeded
    whole_at: float = field(default_factory=time.monotonic)  # start of the last good round, or of the mirror


class Mirror:
    """Restore a run's folder, then mirror it in a thread, every `every_s` seconds and once more at the end.

    `on_change` is called, in that thread, when rounds begin to fail and when they succeed again.

    Raises:
        InfrastructureError: another process uses the folder, another machine has continued the run, or it
            cannot be restored.
    """

    def __init__(
        self, storage: Storage, folder: Path, every_s: float, on_change: Callable[[MirrorStatus], None]
    ) -> None:
        self.status = MirrorStatus()
        self.folder = folder
        self._storage = storage
        self._every_s = every_s
        self._on_change = on_change
        self._ended = threading.Event()
        self._taken_over = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "mirror.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InfrastructureError(f"cannot work in {folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._own = _claim(storage, folder)
            self._kept = sorted(storage.manifests(), key=lambda manifest: manifest.order)
        except BlockingIOError:
            os.close(self._lock)
            raise InfrastructureError(f"another process runs in {folder}: wait for it or stop it") from None
        except GuiAgentError:
            os.close(self._lock)
            raise
        except Exception as error:  # every storage has errors of its own
            os.close(self._lock)
            raise InfrastructureError(f"cannot reach {storage.url}: {_line(error)}") from error
        self._garbage: set[str] = set()  # objects that no kept manifest names
        self._uploader = Uploader(folder, storage)
        self._thread = threading.Thread(target=self._mirror, name="mirror", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Mirror once more. Raises InfrastructureError if the URL stays behind, unless another error is
        propagating."""
        self._ended.set()
        self._thread.join()
        self._round()
        os.close(self._lock)
        if kind is None:
            self.check()
            if self.status.error:
                raise InfrastructureError(
                    f"the run is whole in {self.folder}, but {self._storage.url} is behind it "
                    f"({self.status.error}): the same command brings it there"
                )

    @property
    def bytes(self) -> int:
        """Bytes uploaded so far."""
        return self._uploader.bytes

    def check(self) -> dict[str, Any]:
        """Metrics of the mirroring. Raises InfrastructureError if another machine has continued the run.

        `behind_s` is the age of the newest state of the folder that is surely on the storage.
        """
        if self._taken_over:
            raise _gone_on(self._storage, self.folder)
        status = self.status
        return {
            "mirror": {
                "behind_s": time.monotonic() - status.whole_at,
                "rounds": status.rounds,
                "failures": status.failures,
                "uploaded_bytes": self.bytes,
            }
        }

    def _mirror(self) -> None:
        pause = self._every_s
        while not self._ended.wait(pause) and not self._taken_over:
            self._round()
            longer = min(2 * pause, max(self._every_s, _LONGEST_PAUSE_S))
            pause = longer if self.status.error else self._every_s

    def _round(self) -> None:
        was_away, began = bool(self.status.error), time.monotonic()
        try:
            self._bring()
        except Exception as error:  # every storage has errors of its own, and none may end the run
            self.status.failures += 1
            self.status.error = _line(error)
        else:
            self.status.rounds += 1
            self.status.error = ""
            self.status.whole_at = began
        if bool(self.status.error) != was_away:
            self._on_change(self.status)

    def _bring(self) -> None:
        newest = self._storage.newest()
        if newest is not None and newest.writer != self._own.writer and newest.epoch >= self._own.epoch:
            self._taken_over = True
            return
        last = self._kept[-1] if self._kept else None
        files = self._uploader.upload(last.files if last else {})
        if last is None or files != last.files:
            number = last.number + 1 if last else 1
            manifest = Manifest(self._own.epoch, number, self._own.writer, files)
            self._storage.publish(manifest)
            self._kept.append(manifest)
        while len(self._kept) > _KEPT:
            self._storage.remove(self._kept[0])
            self._garbage |= self._kept.pop(0).objects
        self._garbage -= set().union(*(manifest.objects for manifest in self._kept))
        for name in sorted(self._garbage):
            self._storage.remove_part(name)
            self._garbage.remove(name)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _claim(storage: Storage, folder: Path) -> _Own:
    """Return the folder's writer identity; if it has none, restore the run into it and begin a new epoch."""
    newest = storage.newest()
    mine = folder / OWN
    if (own := _own(mine)) is not None:
        if _superseded(own, newest):
            raise _gone_on(storage, folder)
        return own
    newest = pull(storage, folder)
    own = _Own(newest.epoch + 1 if newest else 1, uuid.uuid4().hex[:12])
    if newest is not None:  # from here on, the previous writer writes no more
        storage.publish(Manifest(own.epoch, newest.number + 1, own.writer, newest.files))
        for name, stale in listed(folder):
            if checkpoint_of(name) and name not in newest.files:  # handed over before, removed since
                stale.unlink()
    temporary = folder / f".tmp-{OWN}"
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(own))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(mine)
    return own


def _superseded(own: _Own, newest: Manifest | None) -> bool:
    return newest is not None and newest.writer != own.writer and newest.epoch >= own.epoch


def _own(file: Path) -> _Own | None:
    """The writer identity stored in the folder; None if there is none yet."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Own)
    except FileNotFoundError:
        return None
    except (OSError, *DECODE_ERRORS) as error:
        raise InfrastructureError(
            f"cannot read {file}: {error}; if it is damaged, move {file.parent} away and start again"
        ) from error


def _gone_on(storage: Storage, folder: Path) -> InfrastructureError:
    return InfrastructureError(
        f"another machine has gone on with the run {storage.url}: stop it there, then move {folder} away "
        "and start again to go on from what it did"
    )


def hand_over(folder: Path) -> None:
    """Give up the folder's claim on the run: the next process to open the run restores it from its URL.

    The URL has all of the run once `run_folder` was left without an error.
    """
    (folder / OWN).unlink(missing_ok=True)


def set_aside(url: str) -> Path | None:
    """Move the run's local folder away if another machine has continued the run; return its new path or None.

    The caller makes sure that no process works in the folder. What only the folder has is of no use to the
    run any more.
    """
    folder, storage = local_folder(url), Storage(url)
    if (own := _own(folder / OWN)) is None:
        return None
    try:
        newest = storage.newest()
    except Exception as error:  # every storage has errors of its own
        raise InfrastructureError(f"cannot reach {url}: {_line(error)}") from error
    if not _superseded(own, newest):
        return None
    return folder.rename(folder.with_name(f"{folder.name}-{own.writer}"))


def local_folder(url: str) -> Path:
    """The local folder, on this machine, of a run at a URL."""
    name = PurePosixPath(url).name or "run"
    return state_dir() / "runs" / f"{name}-{xxhash.xxh3_64_hexdigest(url.rstrip('/').encode())}"


class RunFolder(NamedTuple):
    """The folder that a run works in.

    `check` returns the metrics of its mirroring, {} if it is not mirrored; it raises InfrastructureError if
    another machine has continued the run.
    """

    path: Path
    check: Callable[[], dict[str, Any]] = dict


@contextlib.contextmanager
def run_folder(run: str, on_warning: Callable[[str], None]) -> Iterator[RunFolder]:
    """The folder at a path; for a URL a local folder, restored from the URL and mirrored to it.

    Raises what `Storage` and `Mirror` raise.
    """
    if "://" not in run:
        yield RunFolder(Path(run), dict)
        return

    def changed(status: MirrorStatus) -> None:
        if status.error:
            on_warning(f"{run} cannot be reached ({status.error}); the run goes on in {folder}")
        else:
            on_warning(f"{run} is up to date again, after {status.failures} failures in all")

    folder = local_folder(run)
    with Mirror(Storage(run), folder, _EVERY_S, changed) as mirror:
        yield RunFolder(folder, mirror.check)
