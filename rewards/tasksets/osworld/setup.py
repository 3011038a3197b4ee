"""Run OSWorld's set-up steps on a desktop: one function for each type.

OSWorld only logs that a step failed and goes on from a broken start; here a failed step before the episode is
a fault. After the episode (`postconfig`) the agent may have caused the failure, for example by closing a
window: it is noted with the score, and the metrics decide.
"""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from guiagent.errors import Fault, FaultError
from rewards.checks import devtools
from rewards.checks.getters.profile import PROFILES
from rewards.checks.guest import Execution, TooLong
from rewards.checks.workspace import Workspace, bad_task
from rewards.tasksets.osworld import steps

MAX_SLEEP_S = 30.0
_WINDOW_S = 60.0  # until the window of a program that was just started appears
_OPEN_S = 180.0
_UNTIL_S = 120.0
_POLL_S = 0.3
_NOT_RUN = (100, 126, 127)  # apt-get could not install; a shell could not run, or not find, a program
_NOT_THERE = re.compile(r": (command )?not found$|no new privileges", re.MULTILINE)
_ACCOUNT = "it needs a Google account"
_NOT_OSWORLDS = "OSWorld itself has no such step"
UNSUPPORTED: dict[str, str] = {
    "googledrive": _ACCOUNT,
    "login": _ACCOUNT,
    "proxy": "a device's way out is bounded by its lease",
    "tidy_desktop": _NOT_OSWORLDS,
    "act": _NOT_OSWORLDS,
    "replay": _NOT_OSWORLDS,
}
"""Steps that are left out, and why."""


def unsupported(step: steps.Step) -> str:
    """Why a step cannot be carried out; "" if it can."""
    return "unknown" if isinstance(step, steps.Other) else UNSUPPORTED.get(step.kind, "")


_HISTORY = f"{PROFILES[0]}/Default/History"
_MAKE_HISTORY = (
    "made=$(mktemp -d); google-chrome --headless=new --user-data-dir=$made --dump-dom about:blank; "
    f"mkdir -p {PROFILES[0]}/Default && mv $made/Default/History {_HISTORY}; code=$?; rm -r $made; exit $code"
)
_CHROME_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


class StepFailed(Exception):
    """A step could not be done; the message says why."""


async def prepare(workspace: Workspace, config: Iterable[steps.Step]) -> None:
    """Bring the desktop to the task's start. Raises FaultError (origin "task") if a step fails."""
    for number, step in enumerate(config, 1):
        try:
            await _run(workspace, step, _WINDOW_S)
        except StepFailed as failed:
            message = f"set-up step {number} ({step.kind}): {failed}"
            raise FaultError(Fault("task", "setup_failed", message, retryable=True)) from failed


async def finish(workspace: Workspace, postconfig: Iterable[steps.Step]) -> None:
    """Run the steps before a task is scored, such as saving the document; failures are noted."""
    for number, step in enumerate(postconfig, 1):
        try:
            await _run(workspace, step, 0.0)
        except StepFailed as failed:
            workspace.notes.append(f"postconfig step {number} ({step.kind}): {failed}")


async def _run(workspace: Workspace, step: steps.Step, patience_s: float) -> None:
    """Run one step; `patience_s` is how long the window that it names may take to appear."""
    if why := unsupported(step):
        raise FaultError(Fault("task", "unsupported", f"step {step.kind!r}: {why}"))
    if isinstance(step, steps.ActivateWindow | steps.CloseWindow):
        await _window(workspace, step, patience_s)
    else:
        await STEPS[type(step)](workspace, step)


async def _download(workspace: Workspace, step: steps.Download) -> None:
    for file in step.files:
        asset = await workspace.assets.get(file.url)
        await _upload(workspace, await asyncio.to_thread(asset.read_bytes), file.path)


async def _upload_file(workspace: Workspace, step: steps.UploadFile) -> None:
    for file in step.files:
        data = await asyncio.to_thread(_own_file, workspace.own_files, file.local_path)
        await _upload(workspace, data, file.path)


async def _launch(workspace: Workspace, step: steps.Launch) -> None:
    command = step.command.split() if isinstance(step.command, str) and not step.shell else step.command
    await _ask(workspace, "/setup/launch", {"command": workspace.fill(command), "shell": step.shell})


async def _open(workspace: Workspace, step: steps.Open) -> None:
    await _ask(workspace, "/setup/open_file", {"path": step.path}, _OPEN_S)


async def _execute(workspace: Workspace, step: steps.Execute) -> None:
    """Run a command, again and again until `until` holds.

    OSWorld ignores exit codes, and `diff` and `pkill` end with 1 in normal use. What says that a program is
    missing, cannot be run or lacks the right to do its work is a failed step; other codes are noted.
    """
    until = asyncio.get_running_loop().time() + _UNTIL_S
    while True:
        done = await workspace.guest.execute(workspace.fill(step.command), step.shell)
        if done is None:
            raise StepFailed(f"{step.command!r:.200} cannot be run, or takes over 120 s")
        for name, output in ((step.stdout, done.output), (step.stderr, done.error)):
            if name:
                workspace.result(name).write_text(output, encoding="utf-8", errors="replace")
        wanted = step.until
        if wanted is None:
            _require_ran(workspace, step, done)
        if wanted is None or (
            wanted.returncode == done.code
            or (wanted.stdout is not None and wanted.stdout in done.output)
            or (wanted.stderr is not None and wanted.stderr in done.error)
        ):
            return
        if asyncio.get_running_loop().time() >= until:
            raise StepFailed(f"{step.command!r:.200} did not come to what it should within {_UNTIL_S:g} s")
        await asyncio.sleep(_POLL_S)


def _require_ran(workspace: Workspace, step: steps.Execute, done: Execution) -> None:
    said = done.error.strip()
    if done.code in _NOT_RUN or _NOT_THERE.search(done.error):
        raise StepFailed(f"{step.command!r:.200} ended with {done.code}: {said[-200:]}")
    if done.code:
        workspace.notes.append(f"{step.command!r:.100} ended with {done.code}: {said[-100:]}")


async def _execute_with_verification(workspace: Workspace, step: steps.ExecuteWithVerification) -> None:
    wanted = {
        "command": workspace.fill(step.command),
        "shell": step.shell,
        "verification": step.verification or {},
        "max_wait_time": step.max_wait_time,
        "check_interval": step.check_interval,
    }
    await _ask(workspace, "/setup/execute_with_verification", wanted, 130.0 + step.max_wait_time)


async def _window(
    workspace: Workspace, step: steps.ActivateWindow | steps.CloseWindow, patience_s: float
) -> None:
    wanted = {"window_name": step.window_name, "strict": step.strict, "by_class": step.by_class}
    until = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return await _ask(workspace, f"/setup/{step.kind}", wanted)
        except StepFailed:
            if asyncio.get_running_loop().time() >= until:
                raise
            await asyncio.sleep(_POLL_S)


async def _sleep(workspace: Workspace, step: steps.Sleep) -> None:
    if step.seconds > MAX_SLEEP_S:
        workspace.notes.append(f"a sleep of {step.seconds:g} s was cut to {MAX_SLEEP_S:g} s")
    await asyncio.sleep(min(max(step.seconds, 0.0), MAX_SLEEP_S))


async def _change_wallpaper(workspace: Workspace, step: steps.ChangeWallpaper) -> None:
    await _ask(workspace, "/setup/change_wallpaper", {"path": step.path})


async def _chrome_open_tabs(workspace: Workspace, step: steps.ChromeOpenTabs) -> None:
    try:
        await devtools.open_tabs(workspace.guest, step.urls_to_open)
    except devtools.NoBrowser as error:
        raise StepFailed(str(error)) from error


async def _chrome_close_tabs(workspace: Workspace, step: steps.ChromeCloseTabs) -> None:
    try:
        tabs = await devtools.tabs(workspace.guest)
        closed = []
        for url in step.urls_to_close:
            same = next((tab.id for tab in tabs if same_page(tab.url, url) and tab.id not in closed), None)
            if same is None:
                raise StepFailed(f"no tab shows {url}")
            closed.append(same)
        await devtools.close_tabs(workspace.guest, closed)
    except devtools.NoBrowser as error:
        raise StepFailed(str(error)) from error


async def _update_browse_history(workspace: Workspace, step: steps.UpdateBrowseHistory) -> None:
    """Write visits into the profile of a Chrome that has not been started yet.

    OSWorld downloads an empty history. Here the guest's own browser makes one, which has the tables of its
    version and needs no network.
    """
    made = await workspace.guest.execute(_MAKE_HISTORY, True)
    empty = await workspace.guest.read(_HISTORY)
    if made is None or made.code or empty is None:
        raise StepFailed("the guest's browser made no history")
    database = await asyncio.to_thread(_visited, empty, step.history, workspace.now)
    await _upload(workspace, database, _HISTORY)


def _visited(empty: bytes, visits: Iterable[steps.Visit], now: datetime) -> bytes:
    """Return Chrome's history database with these visits added."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(empty)
        connection.execute("PRAGMA trusted_schema = OFF")  # it comes from a device
        with connection:
            for visit in visits:
                when = now - timedelta(seconds=visit.visit_time_from_now_in_seconds)
                at = (when - _CHROME_EPOCH) // timedelta(microseconds=1)
                row = connection.execute(
                    "INSERT INTO urls (url, title, visit_count, typed_count, last_visit_time, hidden)"
                    " VALUES (?, ?, 1, 0, ?, 0)",
                    (visit.url, visit.title, at),
                ).lastrowid
                connection.execute(
                    "INSERT INTO visits (url, visit_time, from_visit, transition, segment_id, visit_duration)"
                    " VALUES (?, ?, 0, 805306368, 0, 0)",
                    (row, at),
                )
        return connection.serialize()
    except sqlite3.Error as error:
        raise StepFailed(f"the guest's browser made a history of another form: {error}") from error
    finally:
        connection.close()


def same_page(one: str, other: str) -> bool:
    """Whether two addresses are equal except for `www.` and a slash at the end; a missing scheme is http.

    So it is in OSWorld. A text that is no address is no page: a tab's address comes from the guest.
    """

    def parts(url: str) -> tuple[str, str, str, str, str]:
        split = urlsplit(url if "://" in url else f"http://{url}")
        return (
            split.scheme,
            split.netloc.lower().removeprefix("www."),
            split.path.rstrip("/"),
            split.query,
            split.fragment,
        )

    try:
        return parts(one) == parts(other)
    except ValueError:
        return False


def _own_file(folder: Path, name: str) -> bytes:
    """Read a file from the task files' folder: a task must not read elsewhere on the host."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise bad_task(f"there is no file {name!r} beside the task files")
    return path.read_bytes()


async def _upload(workspace: Workspace, data: bytes, path: str) -> None:
    answer = await workspace.guest.write(path, data)
    if not answer.ok:
        raise StepFailed(f"{path}: the guest answered {answer.status}: {answer.text[:200]}")


async def _ask(workspace: Workspace, path: str, body: dict[str, Any], deadline_s: float = 70.0) -> None:
    try:
        answer = await workspace.guest.ask("POST", path, json=body, deadline_s=deadline_s)
    except TooLong as error:
        raise StepFailed(str(error)) from error
    if not answer.ok:
        raise StepFailed(f"the guest answered {answer.status}: {answer.text[:300].strip()}")


STEPS: dict[type[steps.Step], Callable[[Workspace, Any], Awaitable[None]]] = {
    steps.Download: _download,
    steps.UploadFile: _upload_file,
    steps.Launch: _launch,
    steps.Open: _open,
    steps.Execute: _execute,
    steps.RunCommand: _execute,
    steps.ExecuteWithVerification: _execute_with_verification,
    steps.Sleep: _sleep,
    steps.ChangeWallpaper: _change_wallpaper,
    steps.ChromeOpenTabs: _chrome_open_tabs,
    steps.ChromeCloseTabs: _chrome_close_tabs,
    steps.UpdateBrowseHistory: _update_browse_history,
}
