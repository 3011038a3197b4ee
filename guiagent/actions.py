"""The actions an agent can take: one pydantic union on `type`, in pixels of the frame the device returned.

Unknown fields are refused and text is bounded, so that nothing a model writes reaches a device unchecked.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_TEXT = 4096
Pixel = Annotated[int, Field(ge=0, le=16383)]
Button = Literal["left", "middle", "right", "back", "forward"]
Modifier = Literal["Alt", "Control", "Meta", "Shift"]
Milliseconds = Annotated[int, Field(ge=0, le=60_000)]
Key = Annotated[str, Field(min_length=1, max_length=32)]  # W3C KeyboardEvent.key names: "Enter", "a", "F5"
Text = Annotated[str, Field(max_length=MAX_TEXT)]


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Click(_Action):
    type: Literal["click"] = "click"
    x: Pixel
    y: Pixel
    button: Button = "left"
    count: Annotated[int, Field(ge=1, le=3)] = 1
    modifiers: tuple[Modifier, ...] = ()


class Move(_Action):
    type: Literal["move"] = "move"
    x: Pixel
    y: Pixel


class MouseDown(_Action):
    type: Literal["mouse_down"] = "mouse_down"
    x: Pixel
    y: Pixel
    button: Button = "left"


class MouseUp(_Action):
    type: Literal["mouse_up"] = "mouse_up"
    x: Pixel
    y: Pixel
    button: Button = "left"


class Drag(_Action):
    type: Literal["drag"] = "drag"
    path: Annotated[tuple[tuple[Pixel, Pixel], ...], Field(min_length=2, max_length=256)]
    button: Button = "left"


class Scroll(_Action):
    """Scroll at a point: positive `dy` moves the content up (wheel down); units are pixels."""

    type: Literal["scroll"] = "scroll"
    x: Pixel
    y: Pixel
    dx: Annotated[int, Field(ge=-10_000, le=10_000)] = 0
    dy: Annotated[int, Field(ge=-10_000, le=10_000)] = 0


class Type(_Action):
    """Type into the focused element; `clear` empties it first, `submit` presses Enter after."""

    type: Literal["type"] = "type"
    text: Text
    clear: bool = False
    submit: bool = False


class KeyChord(_Action):
    """Press keys together, in order, and release them in reverse: `("Control", "a")`."""

    type: Literal["key"] = "key"
    keys: Annotated[tuple[Key, ...], Field(min_length=1, max_length=5)]


class KeyDown(_Action):
    type: Literal["key_down"] = "key_down"
    key: Key


class KeyUp(_Action):
    type: Literal["key_up"] = "key_up"
    key: Key


class LongPress(_Action):
    type: Literal["long_press"] = "long_press"
    x: Pixel
    y: Pixel
    ms: Milliseconds = 800


class Swipe(_Action):
    type: Literal["swipe"] = "swipe"
    x1: Pixel
    y1: Pixel
    x2: Pixel
    y2: Pixel
    ms: Milliseconds = 300


class Pinch(_Action):
    """Pinch with two fingers around a point: `scale` > 1 spreads them, < 1 brings them together."""

    type: Literal["pinch"] = "pinch"
    x: Pixel
    y: Pixel
    scale: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]


class PressButton(_Action):
    type: Literal["press_button"] = "press_button"
    button: Literal[
        "back", "forward", "home", "recents", "menu", "enter", "power", "volume_up", "volume_down"
    ]


class Open(_Action):
    """Open an app by name or a page by URL; the device decides which schemes it allows."""

    type: Literal["open"] = "open"
    target: Annotated[str, Field(min_length=1, max_length=2048)]


class Wait(_Action):
    type: Literal["wait"] = "wait"
    ms: Milliseconds = 1000


class Zoom(_Action):
    """Ask for the next frame of a region `(x1, y1, x2, y2)` at full resolution."""

    type: Literal["zoom"] = "zoom"
    region: tuple[Pixel, Pixel, Pixel, Pixel]


class Answer(_Action):
    type: Literal["answer"] = "answer"
    text: Text


class Done(_Action):
    """End the episode with a claim. `evidence` cites the turns, from 0, whose screens prove the claim."""

    type: Literal["done"] = "done"
    status: Literal["success", "failure", "infeasible"] = "success"
    evidence: Annotated[tuple[Annotated[int, Field(ge=0, lt=1000)], ...], Field(max_length=16)] = ()


class Shell(_Action):
    """Run a command on the device. Refused unless the lease grants `shell`."""

    type: Literal["shell"] = "shell"
    command: Text


Action = Annotated[
    Click
    | Move
    | MouseDown
    | MouseUp
    | Drag
    | Scroll
    | Type
    | KeyChord
    | KeyDown
    | KeyUp
    | LongPress
    | Swipe
    | Pinch
    | PressButton
    | Open
    | Wait
    | Zoom
    | Answer
    | Done
    | Shell,
    Field(discriminator="type"),
]

ACTION: TypeAdapter[Action] = TypeAdapter(Action)
ACTIONS: TypeAdapter[list[Action]] = TypeAdapter(list[Action])


_HELD = frozenset({"Control", "Alt", "Meta"})  # with them a letter is a command


def is_terminal(action: Action) -> bool:
    """True for the actions that end an episode: the agent said it is done, or answered."""
    return isinstance(action, Done | Answer)


def points(action: Action) -> list[tuple[int, int]]:
    """The pixels an action touches, in order; empty for actions without a place."""
    match action:
        case Click() | Move() | MouseDown() | MouseUp() | Scroll() | LongPress() | Pinch():
            return [(action.x, action.y)]
        case Drag():
            return list(action.path)
        case Swipe():
            return [(action.x1, action.y1), (action.x2, action.y2)]
        case _:
            return []


def types_text(action: Action) -> bool:
    """True if an action puts text into what has the keyboard."""
    match action:
        case Type():
            return True
        case KeyChord(keys=keys):
            return any(len(key) == 1 for key in keys) and not _HELD & set(keys)
        case KeyDown(key=key) | KeyUp(key=key):
            return len(key) == 1
    return False


def off_screen(action: Action, width: int, height: int) -> str | None:
    """Why an action has no effect on a screen of this size, in one line; None if it may have one."""
    beyond = next(((x, y) for x, y in points(action) if x >= width or y >= height), None)
    return None if beyond is None else f"{beyond} is off the screen, which has {width} x {height} pixels"
