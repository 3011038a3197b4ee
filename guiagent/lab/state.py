"""The state of an app, and what a tap, a scroll, a text or Back does to it."""

import random
import zlib

import msgspec

from guiagent.lab.world import AppSpec, Element, Screen, World

POPUP = "popup"  # the key of the dialog's only button
BACK = "back"  # the key of the header's arrow
_LOG = 512  # events that are kept
_TEXT = 64  # characters of a field


class Tap(msgspec.Struct, frozen=True, tag=True):
    key: str


class Scroll(msgspec.Struct, frozen=True, tag=True):
    rows: int  # positive: further down


class Enter(msgspec.Struct, frozen=True, tag=True):
    """Text for the focused field; `clear` empties it first."""

    text: str
    clear: bool = False


class Rest(msgspec.Struct, frozen=True, tag=True):
    """No input; what was delayed comes about."""


Event = Tap | Scroll | Enter | Rest


class Happened(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an input did: "opened" a screen, "set" a control, "saved" a form with these `values`."""

    what: str
    key: str
    values: dict[str, str | bool] = {}


class AppState(msgspec.Struct, omit_defaults=True):
    """Everything that an app remembers. `values` holds the controls that no longer are as they began."""

    app: AppSpec = AppSpec()
    seed: int = 0  # of the perturbations
    screen: int = 0
    top: int = 0  # rows scrolled out of view
    focus: str = ""
    popup: bool = False
    pending: Event | None = None  # a tap whose effect is delayed
    values: dict[str, str | bool] = {}
    inputs: int = 0
    visits: int = 0
    log: list[Happened] = []


def value(state: AppState, element: Element) -> str | bool:
    """What a control is set to: True or False for a toggle, text for a field."""
    return state.values.get(element.key, "" if element.kind == "field" else False)


def rows(world: World, state: AppState) -> tuple[Element, ...]:
    """The rows of the current screen in the order in which they are shown now."""
    shown = world.screens[state.screen].rows
    if not _chance(state, "moves", state.visits, state.app.moves):
        return shown
    moved = list(shown)
    random.Random(f"{state.seed}/{state.visits}").shuffle(moved)
    return tuple(moved)


def furthest(screen: Screen, fit: int) -> int:
    """The most rows that can be scrolled out of view where `fit` rows are visible."""
    return max(0, len(screen.rows) - fit)


def apply(world: World, state: AppState, event: Event) -> str | None:
    """Change `state` by one input; return why it had no effect, or None."""
    state.inputs += 1
    delayed, state.pending = state.pending, None
    if delayed is not None:
        _act(world, state, delayed)
        if isinstance(event, Rest):
            return None
    if isinstance(event, Tap) and event.key != POPUP and not state.popup:
        if delayed is None and _chance(state, "lag", state.inputs, state.app.lag):
            state.pending = event
            return None
        if _chance(state, "popup", state.inputs, state.app.popups):
            state.popup = True
            return None
    return _act(world, state, event)


def _act(world: World, state: AppState, event: Event) -> str | None:
    if state.popup and event != Tap(POPUP):
        return "a dialog is in front"
    match event:
        case Tap(key=key) if key == POPUP:
            state.popup = False
        case Tap(key=key) if key == BACK:
            return _open(world, state, world.screens[state.screen].up)
        case Tap(key=key):
            return _tap(world, state, key)
        case Scroll(rows=by):
            top = min(max(0, state.top + by), furthest(world.screens[state.screen], state.app.rows))
            if top == state.top:
                return "nothing more to scroll to"
            state.top = top
        case Enter():
            return _enter(world, state, event)
        case Rest():
            pass
    return None


def _tap(world: World, state: AppState, key: str) -> str | None:
    try:
        screen, _ = world.row(key)
    except KeyError:
        screen = -1
    if screen != state.screen:  # a tap that was delayed until another screen was shown
        return "what was tapped is gone"
    element = world.element(key)
    state.focus = key if element.kind == "field" else ""
    match element.kind:
        case "link":
            return _open(world, state, element.to)
        case "toggle":
            _set(state, element, not value(state, element))
        case "save":
            fields = (one for one in world.screens[screen].rows if one.kind == "field")
            _log(state, Happened("saved", key, {one.key: value(state, one) for one in fields}))
        case "fact":
            return "nothing to press there"
        case "field":
            pass
    return None


def _open(world: World, state: AppState, screen: int) -> str | None:
    if screen < 0:
        return "there is no way back from the first screen"
    state.screen, state.top, state.focus = screen, 0, ""
    state.visits += 1
    _log(state, Happened("opened", str(screen)))
    return None


def _enter(world: World, state: AppState, event: Enter) -> str | None:
    if not state.focus:
        return "no field has the focus"
    element = world.element(state.focus)
    before = "" if event.clear else str(value(state, element))
    _set(state, element, (before + event.text)[:_TEXT])
    return None


def _set(state: AppState, element: Element, new: str | bool) -> None:
    state.values[element.key] = new
    if not new:
        del state.values[element.key]  # as it began
    _log(state, Happened("set", element.key, {element.key: new}))


def _log(state: AppState, happened: Happened) -> None:
    state.log.append(happened)
    del state.log[:-_LOG]


def _chance(state: AppState, what: str, count: int, share: float) -> bool:
    """Whether a perturbation strikes, which only the seed and the count of inputs decide."""
    return share > 0 and zlib.crc32(f"{state.seed}/{what}/{count}".encode()) < share * 2**32
