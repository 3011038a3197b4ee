"""Conversion of the XML of `uiautomator dump` to nodes. Pure; the XML is not trusted."""

from xml.etree import ElementTree

from guiagent.nodes import visible
from guiagent.types import MAX_NAME, MAX_VALUE, Node, State
from guiagent.uiautomator import bounds_of, root_of

_MAX_NODES = 1000
_MAX_DEPTH = 200
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


def parse(xml: bytes, width: int, height: int) -> list[Node]:
    """Nodes in document order, without those outside the screen and those that have no text or function.

    Raises guiagent.uiautomator.TreeError for what is no dump.
    """
    root = root_of(xml)
    nodes: list[Node] = []
    stack: list[tuple[ElementTree.Element, str | None, int]] = [(child, None, 0) for child in reversed(root)]
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
    bounds = bounds_of(element)
    box = visible(bounds, *screen) if bounds else None
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
