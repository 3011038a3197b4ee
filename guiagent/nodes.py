"""The words of accessibility trees, and the search in them: pure functions on the nodes of an observation."""

from collections.abc import Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from guiagent.actions import Action, points, types_text
from guiagent.errors import NotFoundError, UsageError, nearest
from guiagent.types import Box, Node

ROLES = frozenset(
    {"alert", "alertdialog", "application", "article", "banner", "blockquote", "button", "caption", "cell"}
    | {"checkbox", "code", "columnheader", "combobox", "complementary", "contentinfo", "definition", "dialog"}
    | {"document", "figure", "form", "generic", "grid", "gridcell", "group", "heading", "image", "link"}
    | {"list", "listbox", "listitem", "log", "main", "math", "menu", "menubar", "menuitem"}
    | {"menuitemcheckbox", "menuitemradio", "meter", "navigation", "option", "paragraph", "progressbar"}
    | {"radio", "radiogroup", "region", "row", "rowgroup", "rowheader", "scrollbar", "search", "searchbox"}
    | {"separator", "slider", "spinbutton", "status", "switch", "tab", "table", "tablist", "tabpanel", "term"}
    | {"text", "textbox", "timer", "toolbar", "tooltip", "tree", "treegrid", "treeitem", "window"}
)
"""What `Node.role` can be: WAI-ARIA's roles, and "text" and "window", for which it has none."""


def visible(box: Box, width: int, height: int) -> Box | None:
    """The part of a box that lies on a screen of `width` x `height` pixels; None if nothing of it does."""
    left, top = max(box[0], 0), max(box[1], 0)
    right, bottom = min(box[0] + box[2], width), min(box[1] + box[3], height)
    return (left, top, right - left, bottom - top) if right > left and bottom > top else None


def centre(box: Box) -> tuple[int, int]:
    """The pixel in the middle of a box."""
    return box[0] + box[2] // 2, box[1] + box[3] // 2


CONTROLS = frozenset(
    {"button", "checkbox", "combobox", "gridcell", "link", "menuitem", "menuitemcheckbox"}
    | {"menuitemradio", "option", "radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox"}
    | {"treeitem"}
)
"""Roles of what a person would click or type into."""
_FIELDS = frozenset({"combobox", "searchbox", "spinbutton", "textbox"})
_UNSEEN = frozenset({"application", "document", "generic"})  # their names do not show on the screen
_NEAREST = 3
_SHOWN = 60  # characters of a name in an error


def is_control(node: Node) -> bool:
    """True for what a person would click, if it is not disabled."""
    return ("clickable" in node.states or node.role in CONTROLS) and "disabled" not in node.states


def hit(nodes: Sequence[Node], x: int, y: int) -> Node | None:
    """The element that a click at a point hits: the smallest control there, else the smallest with a name.

    Of equally large ones it is the one inside, which comes later. None if nothing is there.
    """
    there = [
        node
        for node in nodes
        if node.box[0] <= x < node.box[0] + node.box[2] and node.box[1] <= y < node.box[1] + node.box[3]
    ]
    found = [node for node in there if is_control(node)] or [node for node in there if node.name]
    return min(reversed(found), key=lambda node: node.box[2] * node.box[3], default=None)


def focused(nodes: Sequence[Node]) -> Node | None:
    """The element that has the keyboard; the innermost, if a tree says it of several."""
    return next((node for node in reversed(nodes) if "focused" in node.states), None)


def aimed_at(action: Action, nodes: Sequence[Node]) -> Node | None:
    """The element at an action's first point, or the one that gets its keys; without what stands in it."""
    places = points(action)
    node = hit(nodes, *places[0]) if places else focused(nodes) if types_text(action) else None
    return node and replace(node, id="", parent=None, value="")


def is_field(node: Node) -> bool:
    """True for what a person would type into, if it is not disabled."""
    return ("editable" in node.states or node.role in _FIELDS) and "disabled" not in node.states


def matching(nodes: Sequence[Node], text: str | None = None, role: str | None = None) -> list[Node]:
    """The nodes with this role that are called `text`: controls first, else in the tree's order.

    Case and spaces do not count. A whole name comes before a whole value, that before a part of a name, and
    that before a part of a value: only the matches of the best kind are returned.

    Raises UsageError for a role that no node can have.
    """
    if role is not None and role not in ROLES:
        raise UsageError(f"there is no role {role[:_SHOWN]!r}{nearest(role, ROLES)}")
    kept = [node for node in nodes if role in (None, node.role)]
    if text is not None:
        wanted = _plain(text)
        ranked = [(rank, node) for node in kept if (rank := _rank(node, wanted)) is not None]
        best = min((rank for rank, _ in ranked), default=0)
        kept = [node for rank, node in ranked if rank == best]
    return sorted(kept, key=lambda node: not is_control(node))


def picked(nodes: Sequence[Node], text: str | None, role: str | None, nth: int = 0) -> Node:
    """The `nth` of the matching nodes. Raises NotFoundError, whose line names what comes near."""
    found = matching(nodes, text, role)
    if 0 <= nth < len(found):
        return found[nth]
    wanted = f"{role or 'element'}{'' if text is None else f' {text[:_SHOWN]!r}'}"
    if found:
        raise NotFoundError(f"there is no {wanted} number {nth}: of {len(found)}, the first is 0")
    near = matching(nodes, text) if role is not None and text is not None else []
    near = near or _near(nodes, text or "")
    hint = f"; what comes near: {', '.join(described(node) for node in near[:_NEAREST])}" if near else ""
    raise NotFoundError(f"there is no {wanted} on the screen{hint}")


def described(node: Node) -> str:
    """A node in a few words, such as "button 'Save'"."""
    called = node.name or node.value
    return f"{node.role} {called[:_SHOWN]!r}" if called else node.role


def reading(nodes: Sequence[Node]) -> str:
    """The text that shows, a line for each element that has some, in the tree's order.

    What an element repeats of one around it is left out, such as the label inside a button.
    """
    by_id = {node.id: node for node in nodes if node.id}
    lines = []
    for node in nodes:
        told = "" if node.role in _UNSEEN or is_field(node) else node.name
        around = by_id.get(node.parent or "")
        inside = around is not None and around.role not in _UNSEEN and told in around.name
        lines += [] if inside or not told else [told]
        lines += [node.value] if node.value and node.value != told else []
    return "\n".join(lines)


def _rank(node: Node, wanted: str) -> int | None:
    name, value = _plain(node.name), _plain(node.value)
    fits = (wanted == name, wanted == value, wanted in name, wanted in value)
    return fits.index(True) if True in fits else None


def _near(nodes: Sequence[Node], text: str) -> list[Node]:
    """The nodes whose names are most like `text`."""
    by_name = {_plain(node.name): node for node in nodes if node.name}
    return [by_name[name] for name in get_close_matches(_plain(text), by_name, _NEAREST, 0.5)]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
