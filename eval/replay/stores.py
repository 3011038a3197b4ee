"""Writes the page of all episodes of some trajectory stores, and their pictures into a folder beside it.

The page is the live page's own (`eval.watch.page`) with episodes alone. All texts are in it; a picture is
read when it comes into view, so that thousands of steps open at once.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from eval.report.viewer import media_type
from eval.watch.episodes import summary, whole
from eval.watch.page import document
from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.atomic import write_file
from guiagent.storage.following import StoreFollower

STORE = "trajectories"
_MOST_EPISODES = 2_000  # of a page, the newest
_NAMES = {"image/jpeg": "jpg", "image/png": "png"}


class Written(NamedTuple):
    episodes: int
    steps: int
    frames: int
    problems: list[str]  # what could not be read, in a line each


def stores_of(run: Path) -> list[Path]:
    """Return the stores of a run, an evaluation or a comparison; `run` may be a store itself.

    Raises:
        UsageError: there is none.
    """
    if any(run.glob("segment-*.log")):
        return [run]
    found = [run / STORE] if (run / STORE).is_dir() else []
    found += sorted(path for pattern in (f"*/{STORE}", f"*/*/{STORE}") for path in run.glob(pattern))
    if not found:
        raise UsageError(f"there are no trajectories in {run}: give the folder that --run named")
    return found


def write_page(stores: Sequence[Path], file: Path, name: str, episode: str | None = None) -> Written:
    """Write the page of the newest episodes of `stores` to `file`; of one episode if its id is given.

    Its pictures go to the folder `file`.frames; those that are there already are left.

    Raises:
        UsageError: there is no episode, or none of that id, or the pictures' folder is a link.
        InfrastructureError: the disk is full or failing.
    """
    followers = [StoreFollower(store.parent, store.name) for store in stores]
    shown = list(_episodes(followers, episode))
    if not shown:
        what = f"no episode {episode}" if episode else "no whole episode"
        raise UsageError(f"there is {what} in {name}")
    folder = file.with_name(f"{file.name}.frames")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink():
            raise UsageError(f"{folder} is a link: name another page with --out")
        frames = dict(_frames(followers, [told for _, told in shown], folder))
    except OSError as error:
        raise InfrastructureError(f"cannot write to {folder}: {error.strerror}") from error
    problems = [follower.damage for follower in followers if follower.damage]
    lines = [line for line, _ in shown]
    changes = {"epoch": 0, "lines": 0, "events_seen": 0, "events": [], "episodes": lines}
    now = time.time()
    status = {"name": name, "resume": "", "state": "recorded", "changed": now, "now": now}
    changes["status"] = status | {"problems": problems}
    data = {
        "changes": changes,
        "episodes": {line["at"]: told for line, told in shown},
        "frames": frames,
        "replay": True,
    }
    write_file(file, document(data, name, beside=True).encode())
    return Written(len(shown), sum(len(told["turns"]) for _, told in shown), len(frames), problems)


def _episodes(
    followers: Sequence[StoreFollower], episode: str | None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each episode as a line of the list and step by step, those of a store together."""
    for number, follower in enumerate(followers):
        for place in follower.newest(_MOST_EPISODES):
            with suppress(KeyError):  # not whole: `damage` says so, or its commit is in progress
                trajectory = follower.trajectory(place)
                if episode is None or trajectory.id == episode:
                    told = whole(place, trajectory) | {"at": f"{number}.{place.segment}.{place.offset}"}
                    yield summary(place, trajectory) | {"at": told["at"]}, told


def _frames(
    followers: Sequence[StoreFollower], episodes: Sequence[dict[str, Any]], folder: Path
) -> Iterator[tuple[str, str]]:
    """Write the pictures of the episodes; yield each one's hash and its address, relative to the page."""
    written: set[str] = set()
    for told in episodes:
        for hash in (*(turn["frame"] for turn in told["turns"]), told["final_frame"]):
            if not hash or hash in written:
                continue
            written.add(hash)
            for follower in followers:
                with suppress(KeyError):
                    data = follower.frame(hash)
                    if (media := media_type(data)) is None:
                        break
                    path = folder / f"{hash}.{_NAMES[media]}"
                    _keep(path, data)
                    yield hash, f"{folder.name}/{path.name}"
                    break


def _keep(path: Path, data: bytes) -> None:
    """Write a picture unless it is there whole. Its folder may be a stranger's: no link is followed."""
    with suppress(FileNotFoundError):
        about = path.lstat()
        if S_ISREG(about.st_mode) and about.st_size == len(data):
            return
        path.unlink()
    with path.open("xb") as file:
        file.write(data)
