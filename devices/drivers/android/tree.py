"""Conversion of the XML of `uiautomator dump` to nodes. Pure; the XML is not trusted."""

import re
from xml.etree import ElementTree

from guiagent.nodes import visible
from guiagent.types import MAX_NAME, MAX_VALUE, Node, State

MAX_XML = 16 << 20
_MAX_NODES = 1000
_MAX_DEPTH = 200
_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")
# The first of these that the name of a view's class ends in is its role; libraries prefix the names of their
# own views (MaterialButton, SwitchCompat).
_ROLES = {
    "RadioButton": "radio",
    "CompoundButton": "switch",
    "ToggleButton": "button",
    "Button": "button",
    "CheckBox": "checkbox",
    "CheckedTextView": "option",
    "Chronometer": "timer",
    "EditText": "textbox",
    "AutoCompleteTextView": "combobox",
    "GridView": "grid",
    "ImageView": "image",
    "Image": "image",
    "ListView": "list",
    "RecyclerView": "list",
    "NumberPicker": "spinbutton",
    "ProgressBar": "progressbar",
    "RatingBar": "slider",
    "RadioGroup": "radiogroup",
    "SearchView": "search",
    "SeekBar": "slider",
    "Spinner": "combobox",
    "Switch": "switch",
    "SwitchCompat": "switch",
    "SwitchMaterial": "switch",
    "TabWidget": "tablist",
    "TextView": "text",
    "Toolbar": "toolbar",
    "VideoView": "figure",
    "WebView": "document",
}
_FIELDS = ("textbox", "combobox")
_STATES: tuple[State, ...] = ("selected", "focused", "scrollable", "clickable", "long-clickable", "password")


class TreeError(Exception):
    """Data without a tree; the message says in one line what it contains."""


def parse(xml: bytes, width: int, height: int) -> list[Node]:
    """Nodes in document order, without those outside the screen and those that have no text or function.

    Raises TreeError for data that is not XML, has a document type (a dump never does), or has no nodes.
    """
    start, end = xml.find(b"<?xml"), xml.rfind(b"</hierarchy>")
    if start < 0 or end < 0 or len(xml) > MAX_XML:
        raise TreeError(_first_line(xml) or "no answer")
    document = xml[start : end + len(b"</hierarchy>")]
    if b"<!" in document:
        raise TreeError("a dump with a document type")
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise TreeError(f"not XML: {error}") from None
    nodes: list[Node] = []
    stack: list[tuple[ElementTree.Element, str | None, int]] = [(child, None, 0) for child in reversed(root)]
    if not stack:
        raise TreeError("a dump without a node")
    while stack and len(nodes) < _MAX_NODES:
        element, parent, depth = stack.pop()
        node = _node(element, str(len(nodes)), parent, (width, height))
        if node is not None:
            nodes.append(node)
            parent = node.id
        if depth < _MAX_DEPTH:
            stack += [(child, parent, depth + 1) for child in reversed(element)]
    return nodes


def _node(element: ElementTree.Element, id: str, parent: str | None, screen: tuple[int, int]) -> Node | None:
    match = _BOUNDS.fullmatch(element.get("bounds", ""))
    if match is None:
        return None
    left, top, right, bottom = map(int, match.groups())
    box = visible((left, top, right - left, bottom - top), *screen)
    text, hint = element.get("text", ""), element.get("hint", "")
    label = element.get("content-desc", "") or hint
    role = _role(element.get("class", ""))
    states = _states(element, role)
    acts = {"clickable", "long-clickable", "scrollable", "focused"}.intersection(states)
    if box is None or not (text or label or acts or element.get("focusable") == "true"):
        return None
    if role in _FIELDS:
        untold = "password" in states or text == hint  # an empty field shows its hint
        name, value = label, "" if untold else text
    else:
        name, value = label or text, text if label else ""
    if role == "generic" and name:
        role = "text"
    return Node(role, name[:MAX_NAME], box, id, parent, value[:MAX_VALUE], states)


def _role(class_name: str) -> str:
    return next((role for name, role in _ROLES.items() if class_name.endswith(name)), "generic")


def _states(element: ElementTree.Element, role: str) -> tuple[State, ...]:
    def has(attribute: str) -> bool:
        return element.get(attribute) == "true"

    states = {state for state in _STATES if has(state)}
    if has("checked"):
        states.add("pressed" if role == "button" else "checked")
    if element.get("enabled") == "false":
        states.add("disabled")
    elif role in _FIELDS:
        states.add("editable")
    return tuple(sorted(states))


def _first_line(data: bytes) -> str:
    return data[:300].decode("utf-8", "replace").strip().partition("\n")[0]
