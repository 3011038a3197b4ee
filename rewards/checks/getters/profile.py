"""Getters of Chrome's settings and records: files of its profile, read on the host.

If a profile or a key is missing, a getter gives Chrome's default, as OSWorld's getters do.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from guiagent.errors import DECODE_ERRORS
from rewards.checks.getters import configs
from rewards.checks.getters.files import brought
from rewards.checks.workspace import Workspace

PROFILES = ("~/.config/google-chrome", "~/.config/chromium", "~/snap/chromium/common/chromium")
_MAX_ROWS = 100_000
_MAX_STEPS = 20_000  # of 1,000 instructions each
_FONTS = {"default_fixed_font_size": 13, "default_font_size": 16, "minimum_font_size": 13}
_NEW_TAB = 5  # of `restore_on_startup`

T = TypeVar("T")


async def bookmarks(workspace: Workspace, config: configs.Config) -> dict[str, Any] | None:
    """The roots of the tree of bookmarks; None without any."""
    return _at(await _json(workspace, "Default/Bookmarks"), "roots", dict) or None


async def default_search_engine(workspace: Workspace, config: configs.Config) -> str:
    chosen = _at(
        await _preferences(workspace), "default_search_provider_data.template_url_data.short_name", str
    )
    return chosen if chosen is not None else "Google"


async def profile_name(workspace: Workspace, config: configs.Config) -> str | None:
    return _at(await _preferences(workspace), "profile.name", str)


async def chrome_font_size(workspace: Workspace, config: configs.Config) -> dict[str, Any]:
    sizes = _at(await _preferences(workspace), "webkit.webprefs", dict)
    return dict(_FONTS) if sizes is None else sizes


async def enable_do_not_track(workspace: Workspace, config: configs.Config) -> str:
    return _said(_at(await _preferences(workspace), "enable_do_not_track", bool))


async def enable_safe_browsing(workspace: Workspace, config: configs.Config) -> str:
    """ "true" for the standard and for the enhanced protection."""
    preferences = await _preferences(workspace)
    kinds = ("safebrowsing.enhanced", "safebrowsing.enabled")
    return _said(any(_at(preferences, kind, bool) for kind in kinds))


async def enable_enhanced_safety_browsing(workspace: Workspace, config: configs.Config) -> str:
    return _said(_at(await _preferences(workspace), "safebrowsing.enhanced", bool))


async def new_startup_page(workspace: Workspace, config: configs.Config) -> str:
    """ "true" if Chrome starts with the New Tab page, as a fresh profile does."""
    preferences = await _preferences(workspace)
    fresh = "session" not in preferences
    return _said(fresh or _at(preferences, "session.restore_on_startup", int) == _NEW_TAB)


async def data_delete_automacally(workspace: Workspace, config: configs.Config) -> str:
    """ "true" if there is any default setting for sites, such as deleting their data at the end."""
    setting = "profile.default_content_setting_values"
    return _said(_at(await _preferences(workspace), setting, dict) is not None)


async def find_unpacked_extension_path(workspace: Workspace, config: configs.Config) -> list[str]:
    """The path that each extension was loaded from."""
    return [path async for path in _extensions(workspace, "path")]


async def find_installed_extension_name(workspace: Workspace, config: configs.Config) -> list[str]:
    return [name async for name in _extensions(workspace, "manifest.name")]


async def enabled_experiments(workspace: Workspace, config: configs.Config) -> list[Any]:
    """The experiments enabled in chrome://flags, as `NAME@CHOICE`."""
    return _at(await _json(workspace, "Local State"), "browser.enabled_labs_experiments", list) or []


async def chrome_language(workspace: Workspace, config: configs.Config) -> str:
    return _at(await _json(workspace, "Local State"), "intl.app_locale", str) or "en-US"


async def history(workspace: Workspace, config: configs.Dest) -> list[tuple[Any, ...]] | None:
    """(url, title, last visit in microseconds since 1601) of every page visited; None without a history."""
    query = "SELECT url, title, last_visit_time FROM urls"
    return await _rows(workspace, "Default/History", config.dest, query)


async def cookie_data(workspace: Workspace, config: configs.Dest) -> list[tuple[Any, ...]] | None:
    """Rows of the table `cookies`, values still encrypted; None without one."""
    for place in ("Default/Cookies", "Default/Network/Cookies"):  # the second since Chrome 96
        rows = await _rows(workspace, place, config.dest, "SELECT * FROM cookies")
        if rows is not None:
            return rows
    return None


async def _extensions(workspace: Workspace, key: str) -> AsyncIterator[str]:
    preferences = await _preferences(workspace)
    secured = await _json(workspace, "Default/Secure Preferences")  # where they are kept on some systems
    for source in (preferences, secured):
        for extension in (_at(source, "extensions.settings", dict) or {}).values():
            if isinstance(extension, dict) and (value := _at(extension, key, str)) is not None:
                yield value


async def _preferences(workspace: Workspace) -> dict[str, Any]:
    return await _json(workspace, "Default/Preferences")


async def _json(workspace: Workspace, name: str) -> dict[str, Any]:
    """Read a JSON file of the profile; {} if it is missing or no JSON object."""
    for profile in PROFILES:
        data = await workspace.guest.read(f"{profile}/{name}")
        if data is not None:
            try:
                return msgspec.json.decode(data, type=dict[str, Any])
            except DECODE_ERRORS:
                return {}
    return {}


async def _rows(workspace: Workspace, name: str, dest: str, query: str) -> list[tuple[Any, ...]] | None:
    for profile in PROFILES:
        path = await brought(workspace, f"{profile}/{name}", dest)
        if path is not None:
            return await asyncio.to_thread(select, path, query)
    return None


def select(path: Path, query: str) -> list[tuple[Any, ...]] | None:
    """Select at most 100,000 rows of a database that an agent may have made; None if it cannot be read.

    It is opened as an immutable file: no journal beside it is looked for and nothing is written. A query that
    takes too long, as with views that the agent made, is given up.
    """
    steps = 0

    def busy() -> bool:
        nonlocal steps
        steps += 1
        return steps > _MAX_STEPS

    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error:
        return None
    try:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
        connection.set_progress_handler(busy, 1000)
        rows: list[tuple[Any, ...]] = connection.execute(query).fetchmany(_MAX_ROWS)
        return rows
    except sqlite3.Error:
        return None
    finally:
        connection.close()


def _at(document: dict[str, Any], path: str, kind: type[T]) -> T | None:
    value: Any = document
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value if isinstance(value, kind) else None


def _said(value: bool | None) -> str:
    return "true" if value else "false"
