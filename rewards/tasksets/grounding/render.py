"""Grounding items of our own: screens of real devices, with the boxes that the devices give their elements.

Pages are drawn from a seed in a browser (`page.js`), phones show their apps, lab devices screens of
made-to-order apps. The same seed, fonts and browser give the same pictures, pixel by pixel.
"""

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from guiagent.actions import Open
from guiagent.errors import Fault, FaultError
from guiagent.nodes import is_control
from guiagent.protocols import Device
from guiagent.seeds import EVALUATION, checked
from guiagent.storage.atomic import write_file
from guiagent.types import Node, Observation, ObserveSpec, ResetSpec
from rewards.tasksets.grounding.items import Box, Element, Item
from rewards.tasksets.lab import TRAIN_TASKS, Lab

SIZES = {  # of the devices that items are rendered on: small, about full HD, and 4K
    "browser": ((1280, 800), (1920, 1080), (3840, 2160)),
    "phone": ((720, 1280), (1080, 2400), (2160, 3840)),
    "lab": ((320, 448), (1080, 1920), (2160, 3840)),
}
_SOURCES = {"browser": "page", "phone": "phone", "lab": "lab"}
_APPS = ("settings", "contacts", "calculator", "clock", "calendar", "notes", "messages", "shopping")
_SMALLEST = 4.0  # pixels of a side; smaller boxes are parts of lines
_SPEC = ObserveSpec(frame="png")


class Marked(msgspec.Struct, frozen=True, array_like=True):
    """An element of a screen: its kind, an instruction that means it alone, and its box."""

    element: Element
    instruction: str
    box: Box


@dataclass(frozen=True, slots=True)
class Screen:
    shown: Observation
    marked: Sequence[Marked]


async def rendered(
    devices: Iterable[Device], folder: Path, seed: int, *, screens: int = 8, elements: int = 3
) -> list[Item]:
    """Write pictures of the devices' screens into a folder and return the items on them.

    Each device shows `screens` of them; at most `elements` of each kind (text, icon) are chosen from one.
    Equal seeds give equal items.

    Raises:
        FaultError: a device failed, or showed what no item can be made of.
        InfrastructureError: a picture cannot be written.
    """
    checked(seed, EVALUATION)
    items: list[Item] = []
    for device in devices:
        kind, size = (described := await device.describe()).kind, (described.width, described.height)
        count = 0
        async for screen in _SCREENS[kind](device, seed, screens):
            picture = folder / "screenspot_imgs" / f"{kind}-{size[0]}x{size[1]}-{count:02d}.png"
            write_file(picture, screen.shown.frame)
            dice = random.Random(f"{seed}/{picture.name}")
            for element in ("text", "icon"):
                found = [one for one in screen.marked if one.element == element and _whole(one.box, size)]
                for one in dice.sample(found, min(elements, len(found))):
                    id = f"{picture.stem}-{len(items):04d}"
                    items.append(Item(id, picture, size, one.box, one.instruction, element, _SOURCES[kind]))
            count += 1
    return items


async def _pages(device: Device, seed: int, screens: int) -> AsyncIterator[Screen]:
    probe = {"marked": _script("marked.js")}
    for n in range(screens):
        page = ResetSpec(script=_script("page.js"))
        shown = await device.reset(seed + n, page, msgspec.structs.replace(_SPEC, probes=probe))
        yield Screen(shown, _parsed(shown.probes["marked"]))


async def _phones(device: Device, seed: int, screens: int) -> AsyncIterator[Screen]:
    spec = msgspec.structs.replace(_SPEC, tree=True)
    shown = await device.reset(seed, ResetSpec(), spec)
    yield Screen(shown, _controls(shown))
    for app in _APPS[: screens - 1]:
        shown = await device.act([Open(target=app)], spec)
        if shown.action_error is None:
            yield Screen(shown, _controls(shown))


async def _labs(device: Device, seed: int, screens: int) -> AsyncIterator[Screen]:
    spec = msgspec.structs.replace(_SPEC, tree=True)
    for n in range(screens):
        task = Lab().task(TRAIN_TASKS[n % len(TRAIN_TASKS)], seed + n)
        _, shown = await task.setup(device, spec)
        yield Screen(shown, _controls(shown))


_SCREENS = {"browser": _pages, "phone": _phones, "lab": _labs}
_NAVIGATION = frozenset({"Back", "Home", "Overview"})  # below the screens of phones, drawn as signs
_SHORT = 2  # characters of a name that stands on a button as it is, such as "7"


def _controls(shown: Observation) -> list[Marked]:
    """The controls of a tree whose name is theirs alone: pictures to press are icons, rows of words text."""
    nodes = shown.tree or []
    words: dict[str, str] = {}  # of what lies in a node, by that node's id
    for node in nodes:
        if node.name and node.parent is not None:
            words.setdefault(node.parent, node.name)
    found: dict[str, list[Marked]] = {}
    for node in filter(is_control, nodes):
        if name := (node.name or words.get(node.id, "")).strip():
            left, top, width, height = node.box
            element: Literal["text", "icon"] = "icon" if _is_picture(node, name) else "text"
            one = Marked(element, _said(node, name), (left, top, left + width, top + height))
            found.setdefault(name, []).append(one)
    return [ones[0] for ones in found.values() if len(ones) == 1]


def _is_picture(node: Node, name: str) -> bool:
    """True for an image, a phone's own buttons, and a button or switch too narrow for its name."""
    _, _, width, height = node.box
    if node.role == "image" or name in _NAVIGATION:
        return True
    return node.role in ("button", "checkbox", "switch") and width <= 1.5 * height and len(name) > _SHORT


def _said(node: Node, name: str) -> str:
    match node.role:
        case "textbox" | "searchbox" | "combobox":
            return f'type into the field "{name}"'
        case "switch" | "checkbox":
            return f'switch "{name}"'
        case "button":
            return f'press "{name}"'
        case _:
            return f'open "{name}"'


def _whole(box: Box, size: tuple[int, int]) -> bool:
    left, top, right, bottom = box
    inside = left >= 0 and top >= 0 and right <= size[0] and bottom <= size[1]
    return inside and min(right - left, bottom - top) >= _SMALLEST


def _parsed(raw: object) -> list[Marked]:
    try:
        return msgspec.convert(raw, list[Marked])
    except msgspec.ValidationError as error:
        message = f"a page gave no elements to point at: {error}"
        raise FaultError(Fault("task", "no_elements", message)) from error


def _script(name: str) -> str:
    return files(__package__).joinpath(name).read_text().strip()
