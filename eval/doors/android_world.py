"""A leased phone with the interface of AndroidWorld's environment, for agents that were written for it.

Format: google-research/android_world, `env/interface.py` and `env/representation_utils.py`. What its agents
call is here under the same names: state, screen size, actions, answers. Its tasks, set-up and adb calls
are not.
"""

import dataclasses
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple
from xml.etree import ElementTree

from eval.frames import Frame, decoded
from guiagent.actions import Action, Answer, Done, PressButton, Scroll
from guiagent.client.sync_device import SyncDevice
from guiagent.dialects.benchmarks import androidworld
from guiagent.errors import DialectError, Fault, FaultError, UsageError
from guiagent.nodes import visible
from guiagent.types import MAX_NAME, MAX_VALUE
from guiagent.uiautomator import TreeError, bounds_of, root_of

_DUMP = "/sdcard/guiagent.xml"
_TRIES = 4  # to read a tree: uiautomator finds none while the screen moves
_LOOKS = 6  # until two trees in a row are the same
_MAX_VIEWS = 10_000
_FIELDS = ("EditText", "AutoCompleteTextView")


class BoundingBox(NamedTuple):
    """A box by its sides, in pixels or in shares of the screen."""

    x_min: float
    x_max: float
    y_min: float
    y_max: float

    @property
    def center(self) -> tuple[float, float]:
        return (self.x_min + self.x_max) / 2, (self.y_min + self.y_max) / 2

    @property
    def width(self) -> float:
        return self.x_max - self.x_min

    @property
    def height(self) -> float:
        return self.y_max - self.y_min

    @property
    def area(self) -> float:
        return self.width * self.height


@dataclasses.dataclass(frozen=True)
class UIElement:
    """An element that shows, in AndroidWorld's words. None stands for what is empty or not told."""

    text: str | None
    content_description: str | None
    class_name: str | None
    bbox: BoundingBox  # shares of the screen
    bbox_pixels: BoundingBox
    hint_text: str | None
    is_checked: bool
    is_checkable: bool
    is_clickable: bool
    is_editable: bool
    is_enabled: bool
    is_focused: bool
    is_focusable: bool
    is_long_clickable: bool
    is_scrollable: bool
    is_selected: bool
    is_visible: bool
    package_name: str | None
    resource_name: str | None
    resource_id: str | None = None
    tooltip: str | None = None
    metadata: dict[str, Any] | None = None


class State(NamedTuple):
    """What shows: RGB uint8 [height, width, 3], and the elements that `index` of an action counts.

    `forest` is None, as where AndroidWorld itself takes its elements from uiautomator.
    """

    pixels: Frame
    ui_elements: list[UIElement]
    forest: None = None


class AndroidWorldEnv:
    """A leased phone as AndroidWorld's agents know it; lease it with grants=("shell", "files").

    Attributes:
        interaction_cache: what the agent answered last, since the last reset.
    """

    def __init__(self, device: SyncDevice) -> None:
        capabilities = device.wait(device.asynchronous.describe())
        if "a11y" not in device.features or "shell" not in device.features:
            raise UsageError(f"{device.id} is no phone: lease one of the kind phone or android")
        self._device = device
        self._size = (capabilities.width, capabilities.height)
        self._elements: list[UIElement] | None = None
        self.interaction_cache = ""

    @property
    def device_screen_size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self._size

    screen_size = logical_screen_size = device_screen_size

    def reset(self, go_home: bool = False) -> State:
        """Forget the answer, and go home if asked to. `device.reset` is what undoes changes of the phone."""
        self.interaction_cache = ""
        if go_home:
            self._act([PressButton(button="home")], "reset")
        return self.get_state()

    def get_state(self, wait_to_stabilize: bool = False) -> State:
        """What shows now; with `wait_to_stabilize`, once two trees in a row are equal, or after six of them.

        Raises FaultError if the phone tells no tree.
        """
        dump = self._dump()
        for _ in range(_LOOKS - 1 if wait_to_stabilize else 0):
            before, dump = dump, self._dump()
            if dump == before:
                break
        self._elements = ui_elements(dump, self._size)
        return State(decoded(self._device.observe("png"), self._size), list(self._elements))

    def execute_action(self, action: Any) -> None:
        """Carry out a `JSONAction`, or one as a dict; see `guiagent.dialects.benchmarks.androidworld`.

        An `index` counts the elements of the last state. An answer is kept in `interaction_cache`, a status
        does nothing.

        Raises DialectError for what is no action, UsageError for what the phone could not do.
        """
        said = _as_dict(action)
        element = self._element(said)
        if element is not None and said.get("action_type") != "scroll":
            said |= dict(zip("xy", _middle(element.bbox_pixels), strict=True))
        actions = androidworld.actions_of(said, self._size)
        if element is not None:
            actions = [_within(one, element.bbox_pixels) for one in actions]
        match actions:
            case [Answer(text=text)]:
                self.interaction_cache = text
            case [Done()]:
                pass  # its agents end by themselves
            case _:
                self._act(actions, str(said["action_type"]))

    def ask_question(self, question: str, timeout_seconds: float = 600.0) -> str | None:
        """What a person says who takes the phone over for it (`device.ask_human`); None if nobody did."""
        answer = self._device.ask_human(question, timeout_seconds)
        return answer.note if answer.state == "done" else None

    def close(self) -> None:
        """Give the phone back."""
        self._device.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _act(self, actions: list[Action], what: str) -> None:
        error = self._device.act(*actions).action_error
        if error is not None:
            raise UsageError(f"{what}: {error}")

    def _element(self, said: dict[str, Any]) -> UIElement | None:
        """The element that an action names by its index, which is taken out of it."""
        index = said.pop("index", None)
        if index is None:
            return None
        if said.get("x") is not None or said.get("y") is not None:
            raise DialectError("an action has an index, or x and y, not both")
        elements = self._elements if self._elements is not None else self.get_state().ui_elements
        if type(index) is not int or not 0 <= index < len(elements):
            raise DialectError(f"there is no element {str(index)[:20]}: the last state has {len(elements)}")
        return elements[index]

    def _dump(self) -> bytes:
        """The XML of uiautomator, through a file since what a command prints is cut."""
        said = ""
        for _ in range(_TRIES):
            result = self._device.exec("uiautomator", "dump", _DUMP)
            said = (result.stderr or result.stdout).strip().partition("\n")[0]
            try:
                data = self._device.get(_DUMP)
                self._device.exec("rm", "-f", _DUMP)
                root_of(data)
                return data
            except TreeError as error:
                said = str(error)
            except FaultError as error:
                if error.fault.origin != "task":  # it is there, and cannot be read
                    raise
        message = f"uiautomator on {self._device.id}: {said[:200]}"
        raise FaultError(Fault("device", "no_tree", message, retryable=True))


def ui_elements(xml: bytes, size: tuple[int, int]) -> list[UIElement]:
    """The elements of a dump that show on a screen of `size`, in its order: as in AndroidWorld, those without
    others inside, with a description, or that scroll.

    Raises guiagent.uiautomator.TreeError for what is no dump.
    """
    views = islice(root_of(xml).iter("node"), _MAX_VIEWS)
    made = (_ui_element(view, size) for view in views if _tells(view))
    return [element for element in made if element is not None]


def _tells(view: ElementTree.Element) -> bool:
    return not len(view) or bool(view.get("content-desc")) or view.get("scrollable") == "true"


def _ui_element(view: ElementTree.Element, size: tuple[int, int]) -> UIElement | None:
    bounds = bounds_of(view)
    box = visible(bounds, *size) if bounds else None
    if box is None:
        return None
    left, top, right, bottom = box[0], box[1], box[0] + box[2], box[1] + box[3]
    (width, height), class_name = size, view.get("class", "")

    def told(name: str, most: int = MAX_NAME) -> str | None:
        return view.get(name, "")[:most] or None

    def holds(name: str) -> bool:
        return view.get(name) == "true"

    return UIElement(
        text=None if holds("password") else told("text", MAX_VALUE),
        content_description=told("content-desc"),
        class_name=told("class"),
        bbox=BoundingBox(left / width, right / width, top / height, bottom / height),
        bbox_pixels=BoundingBox(left, right, top, bottom),
        hint_text=told("hint"),
        is_checked=holds("checked"),
        is_checkable=holds("checkable"),
        is_clickable=holds("clickable"),
        is_editable=class_name.endswith(_FIELDS) and holds("enabled"),
        is_enabled=holds("enabled"),
        is_focused=holds("focused"),
        is_focusable=holds("focusable"),
        is_long_clickable=holds("long-clickable"),
        is_scrollable=holds("scrollable"),
        is_selected=holds("selected"),
        is_visible=True,
        package_name=told("package"),
        resource_name=told("resource-id"),
    )


def _within(action: Action, box: BoundingBox) -> Action:
    """A scroll over half of an element instead of half of the screen; any other action as it is."""
    if not isinstance(action, Scroll):
        return action
    x, y = _middle(box)
    dx, dy = ((way > 0) - (way < 0) for way in (action.dx, action.dy))
    return Scroll(x=x, y=y, dx=dx * int(box.width // 2), dy=dy * int(box.height // 2))


def _middle(box: BoundingBox) -> tuple[int, int]:
    """The pixel in the middle of a box; of two, the one to the left or above, as in AndroidWorld itself.

    Format: android_world, `env/actuation.py`. Rounding halves to even would leave a box of one pixel.
    """
    x, y = box.center
    return int(x), int(y)


def _as_dict(action: Any) -> dict[str, Any]:
    if isinstance(action, Mapping):
        return dict(action)
    if dataclasses.is_dataclass(action) and not isinstance(action, type):
        return dataclasses.asdict(action)
    raise DialectError("an action is a JSONAction, or a dict with its action_type")
