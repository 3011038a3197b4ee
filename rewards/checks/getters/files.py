"""Getters of files: from the device, from an asset's URL, or kept by a set-up step."""

import asyncio
import os
import shutil
from pathlib import Path

from rewards.checks import grading
from rewards.checks.getters import configs
from rewards.checks.workspace import Workspace, bad_task

_MAX_SHEET = 256 << 20  # bytes of a workbook, unpacked
_MAX_CELLS = 1_000_000

Paths = Path | None | list[Path | None]


async def vm_file(workspace: Workspace, config: configs.Files) -> Paths:
    """Files of the device; None for each that is not there."""
    paths: list[Path | None] = []
    for path, name in config.pairs:
        if config.time_suffix and not config.multi:
            stem, suffix = os.path.splitext(name)
            name = f"{stem}_{workspace.now.strftime(config.time_format)}{suffix}"
        paths.append(await brought(workspace, path, name))
    return _given(config, paths)


async def cloud_file(workspace: Workspace, config: configs.Files) -> Paths:
    """Copies of assets, since a metric may unpack a file beside it. Raises FaultError for a missing asset."""
    paths: list[Path | None] = []
    for url, name in config.pairs:
        path = workspace.expected(name)
        if not path.exists():
            await asyncio.to_thread(shutil.copyfile, await workspace.assets.get(url), path)
        paths.append(path)
    return _given(config, paths)


async def cache_file(workspace: Workspace, config: configs.Kept) -> Path | None:
    """The output of a command that a step kept; None if the command could not be run."""
    path = workspace.result(config.path)
    return path if path.is_file() else None


async def content_from_vm_file(workspace: Workspace, config: configs.Contents) -> list[str] | None:
    """The last row of a workbook's first sheet, as text; None if it cannot be read."""
    if (config.file_type, config.file_content) != ("xlsx", "last_row"):
        raise bad_task(f"there is no {config.file_content!r} of a {config.file_type!r} file")
    path = await brought(workspace, config.path, ".content.xlsx")
    if path is None:
        return None
    try:
        row = await grading.computed("getters.files:last_row", [path], {})
        return row if isinstance(row, list) else None
    except grading.Exceeded as exceeded:
        workspace.notes.append(f"{config.path}: {exceeded}")
        return None


async def gimp_config_file(workspace: Workspace, config: configs.NamedFile) -> Path | None:
    return await brought(workspace, f"~/.config/GIMP/2.10/{config.file_name}", config.dest)


async def vlc_config(workspace: Workspace, config: configs.Dest) -> Path | None:
    return await brought(workspace, "~/.config/vlc/vlcrc", config.dest)


_PALETTE = """
import pyautogui, sys, time
pyautogui.hotkey("ctrl", "shift", "p")
time.sleep(0.5)
pyautogui.typewrite(sys.argv[1])
pyautogui.press("enter")
time.sleep(1.0)
"""


async def vscode_config(workspace: Workspace, config: configs.ExtensionCommand) -> Path | None:
    """Run a command of VS Code from its palette and bring the file that it writes."""
    await workspace.guest.execute(["python3", "-c", _PALETTE, config.vscode_extension_command])
    return await brought(workspace, config.path, config.dest)


async def brought(workspace: Workspace, path: str, name: str) -> Path | None:
    """Copy a file of the device to the host; None if it is not there."""
    kept = workspace.result(name)
    data = await workspace.guest.read(path)
    if data is None:
        kept.unlink(missing_ok=True)  # an earlier getter's file, which the metric must not find
        return None
    kept.write_bytes(data)
    return kept


def _given(config: configs.Files, paths: list[Path | None]) -> Paths:
    given = [paths[index] for index in sorted(set(config.gives))]
    return given[0] if len(given) == 1 else given


def last_row(path: Path) -> list[str] | None:
    """The last row of a workbook's first sheet, as text; None if it cannot be read."""
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    from rewards.checks.archives import UnreadableError, checked_zip, parsing  # which wants lxml

    last: list[str] = []
    left = _MAX_CELLS
    try:
        checked_zip(path, _MAX_SHEET)
        with parsing(path, InvalidFileException), path.open("rb") as file:
            book = load_workbook(file, read_only=True, data_only=True)
            for row in book.worksheets[0].iter_rows(values_only=True):
                left -= len(row)
                if left < 0:
                    return None
                if any(cell is not None for cell in row):
                    last = ["nan" if cell is None else str(cell) for cell in row]
    except UnreadableError:
        return None
    return last or None
