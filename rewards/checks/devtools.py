"""Control the tabs of a guest's browser by a small program that speaks the DevTools protocol in the guest.

The program is started by OSWorld's /execute, so that it works in any guest with Python and needs no open port
of the guest.
"""

from importlib.resources import files

import msgspec

from guiagent.errors import DECODE_ERRORS
from rewards.checks.guest import Guest

_PROGRAM = files(__package__).joinpath("devtools_in_guest.py").read_text()
_PORTS = [9222, 1337]  # socat's, then Chrome's own, as OSWorld's tasks start them
_ACTIVE = "[document.hasFocus(), document.visibilityState === 'visible']"
_OPEN_S = 30.0  # until the browser answers; loading the pages has its own limit


class Tab(msgspec.Struct, frozen=True):
    """A tab. `value` is the expression's value there, None if it failed or the page did not answer."""

    id: str
    title: str
    url: str
    value: object = None

    @property
    def info(self) -> dict[str, str]:
        return {"title": self.title, "url": self.url}


class _Reply(msgspec.Struct):
    tabs: list[Tab] = []
    error: str = ""


class NoBrowser(Exception):
    """No browser with a debugging port answers in the guest, or not as it should."""


async def tabs(guest: Guest) -> list[Tab]:
    """The open tabs, the most recently active first."""
    return await _ask(guest, {})


async def active_tab(guest: Guest, expression: str = "") -> Tab | None:
    """The tab that has the focus, or else is visible, with the value of a JavaScript expression there.

    None if there is no tab.
    """
    found = await _ask(guest, {"evaluate": _ACTIVE})
    active = max(found, key=_activity, default=None)  # the first of equals
    if active is None or not expression:
        return active
    asked = await _ask(guest, {"evaluate": expression, "only": [active.id]})
    return next((tab for tab in asked if tab.id == active.id), None)


def _activity(tab: Tab) -> tuple[bool, bool]:
    match tab.value:
        case [bool() as focused, bool() as shown]:
            return focused, shown
    return False, False


async def open_tabs(guest: Guest, urls: list[str]) -> None:
    """Open tabs in order, once the browser answers. Raises NoBrowser also if a page cannot be loaded."""
    await _ask(guest, {"open": urls, "wait_s": _OPEN_S})


async def close_tabs(guest: Guest, ids: list[str]) -> None:
    await _ask(guest, {"close": ids})


async def _ask(guest: Guest, request: dict[str, object]) -> list[Tab]:
    asked = msgspec.json.encode({"ports": _PORTS, **request}).decode()
    done = await guest.execute(["python3", "-c", _PROGRAM, asked])
    if done is None or done.code:
        last = done.error.strip().splitlines()[-1:] if done else []
        raise NoBrowser("the guest cannot run Python for it" + "".join(f": {line[:200]}" for line in last))
    try:
        reply = msgspec.json.decode(done.output, type=_Reply)
    except DECODE_ERRORS as error:
        raise NoBrowser(f"its answer cannot be read: {error}") from error
    if reply.error:
        raise NoBrowser(reply.error[:300])
    return reply.tabs
