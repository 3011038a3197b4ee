"""`guiagent watch`: serves the live page of a run, from the run's files, or writes it into one file."""

import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from eval.watch.page import exported
from eval.watch.run import WatchedRun
from eval.watch.screens import FarmScreens
from eval.watch.server import LiveServer
from guiagent.cli.common.farm import POOL
from guiagent.cli.common.terminal import terminal
from guiagent.client.local_pool import endpoint_of
from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.atomic import write_file
from guiagent.storage.plain import read_plain
from guiagent.wire import Endpoint

_MOST_NAMED = 4  # runs of a comparison that an error names
_MOST_POOL = 4_096  # bytes of the file that names a run's pool


def watch(run: str, port: int, pool: str | None, export: Path | None) -> None:
    """Serve the live page of `run`, a folder or a URL, until interrupted; with `export` write it and return.

    Raises:
        UsageError: the folder holds runs and is none, or there is nothing to export yet.
        InfrastructureError: the port is taken, or the storage of a URL cannot be reached.
    """
    console = terminal()
    with _folder(run, lasting=export is None) as (folder, problem):
        _refuse_many(folder)
        watched = WatchedRun(folder, run.rstrip("/"), resume_command(run, folder), problem)
        if export is not None:
            _export(watched, folder, run, export, console)
            return
        screens = FarmScreens(lambda: _endpoint(pool, folder))
        try:
            server = LiveServer(watched, screens, run, port)
        except OSError as error:
            raise InfrastructureError(
                f"cannot listen on port {port}: {error.strerror}; --port 0 picks a free one"
            ) from error
        if not (folder / "config.toml").exists():
            console.print(f"waiting   nothing of a run is in {run} yet: the page fills when it begins")
        console.print(f"watching  {run}  live page {server.url}", soft_wrap=True, highlight=False)
        for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore the first
            signal.signal(number, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            server.serve()


def resume_command(run: str, folder: Path) -> str:
    """Return the command that goes on with a run: its own config is a recipe."""
    recipe = folder / "config.toml" if "://" not in run else Path("config.toml")
    return shlex.join(["guiagent", "train", "--recipe", str(recipe), "--run", run])


def _export(watched: WatchedRun, folder: Path, run: str, file: Path, console: Console) -> None:
    if not (folder / "config.toml").exists() and not (folder / "metrics.jsonl").exists():
        raise UsageError(f"there is nothing of a run in {run} yet: name the folder that --run named")
    page = exported(watched, run).encode()
    write_file(file, page)
    console.print(f"written   {file}  {len(page) / 2**20:.1f} MiB, opens from the disk", soft_wrap=True)


@contextmanager
def _folder(run: str, *, lasting: bool) -> Iterator[tuple[Path, Callable[[], str]]]:
    """The folder of a run, and what to say of its mirroring; for a URL a copy that is kept up to date."""
    if "://" not in run:
        yield Path(run), str
        return
    from training.checkpoints.following import MirrorFollower
    from training.checkpoints.storage import Storage

    with tempfile.TemporaryDirectory(prefix="guiagent-watch-") as copy:
        follower = MirrorFollower(Storage(run), Path(copy))
        follower.round()
        if follower.problem:
            raise InfrastructureError(follower.problem)
        if not lasting:
            yield Path(copy), str
            return
        with follower:
            yield Path(copy), lambda: follower.problem


def _refuse_many(folder: Path) -> None:
    """Raise UsageError if a folder holds runs, such as those of a comparison, and is none itself."""
    if (folder / "config.toml").exists() or (folder / "metrics.jsonl").exists():
        return
    runs = sorted(
        path.parent.relative_to(folder).as_posix()
        for pattern in ("*/metrics.jsonl", "*/*/metrics.jsonl")
        for path in folder.glob(pattern)
    )
    if runs:
        more = f" and {len(runs) - _MOST_NAMED} more" if len(runs) > _MOST_NAMED else ""
        raise UsageError(
            f"{folder} holds {len(runs)} runs ({', '.join(runs[:_MOST_NAMED])}{more}): watch one of them, as "
            f"in guiagent watch {folder / runs[0]}"
        )


def _endpoint(pool: str | None, folder: Path) -> Endpoint | None:
    """The pool whose screens are shown: the named one, else that of the run while it trains.

    What a run's folder says is not trusted with a token of ours: there only the state folder of a pool on
    this machine counts, whose token is its own.
    """
    try:
        if pool is None:
            named = read_plain(folder, POOL, most=_MOST_POOL).decode().strip()
            return endpoint_of(named) if Path(named).is_absolute() else None
        return endpoint_of(pool)
    except (OSError, UnicodeDecodeError, UsageError):
        return None
