"""Conversion of what a Linux guest tells of its accessibility (AT-SPI) to nodes. Pure.

The words are those of `Atspi.Role` and `Atspi.StateType`
(https://gnome.pages.gitlab.gnome.org/at-spi2-core/libatspi/), whose names changed over the years.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import msgspec

from guiagent.nodes import ROLES
from guiagent.types import MAX_ID, MAX_NAME, MAX_VALUE, Box, Node, State

MAX_NODES = 2000
_ROLES = {
    "alert": "alertdialog",
    "block quote": "blockquote",
    "check box": "checkbox",
    "check menu item": "menuitemcheckbox",
    "color chooser": "dialog",
    "combo box": "combobox",
    "column header": "columnheader",
    "date editor": "textbox",
    "document email": "document",
    "document frame": "document",
    "document presentation": "document",
    "document spreadsheet": "document",
    "document text": "document",
    "document web": "document",
    "description term": "term",
    "description value": "definition",
    "desktop icon": "image",
    "entry": "textbox",
    "file chooser": "dialog",
    "font chooser": "dialog",
    "footer": "contentinfo",
    "frame": "window",
    "grouping": "group",
    "header": "banner",
    "icon": "image",
    "info bar": "status",
    "label": "text",
    "landmark": "region",
    "level bar": "meter",
    "list box": "listbox",
    "list item": "listitem",
    "menu": "menuitem",  # the title of a menu, which opens it
    "menu bar": "menubar",
    "menu item": "menuitem",
    "notification": "alert",
    "page tab": "tab",
    "page tab list": "tablist",
    "password text": "textbox",
    "popup menu": "menu",
    "progress bar": "progressbar",
    "push button": "button",
    "radio button": "radio",
    "radio menu item": "menuitemradio",
    "row header": "rowheader",
    "scroll bar": "scrollbar",
    "spin button": "spinbutton",
    "static": "text",
    "status bar": "status",
    "table cell": "cell",
    "table column header": "columnheader",
    "table row": "row",
    "table row header": "rowheader",
    "terminal": "textbox",
    "text": "textbox",
    "toggle button": "button",
    "tool bar": "toolbar",
    "tool tip": "tooltip",
    "tree item": "treeitem",
    "tree table": "treegrid",
}
_IF_SELECTABLE = {"cell": "gridcell", "image": "option", "listitem": "option"}  # as icons on a desktop are
_HAVE_VALUES = frozenset(
    {"combobox", "meter", "progressbar", "scrollbar", "searchbox", "slider", "spinbutton", "textbox"}
)
_STATES: dict[str, State] = {
    "active": "active",
    "busy": "busy",
    "checked": "checked",
    "collapsed": "collapsed",
    "disabled": "disabled",
    "editable": "editable",
    "expanded": "expanded",
    "focused": "focused",
    "indeterminate": "mixed",
    "invalid-entry": "invalid",
    "modal": "modal",
    "pressed": "pressed",
    "read-only": "readonly",
    "required": "required",
    "selectable": "selectable",
    "selected": "selected",
}


class Told(msgspec.Struct, frozen=True):
    """A node as a guest server tells it: one of `GET /guiagent/tree`, or an element of OSWorld's XML."""

    role: str
    name: str = ""
    id: str | int = ""
    parent: str | int | None = None
    value: str = ""
    box: Box = (0, 0, 0, 0)
    states: Annotated[tuple[str, ...], msgspec.Meta(max_length=64)] = ()


class Tree(msgspec.Struct, frozen=True):
    """The answer of `GET /guiagent/tree`. A guest is not trusted, so it is decoded as this or refused."""

    nodes: list[Told]


def nodes(told: Iterable[Told]) -> list[Node]:
    """Convert what a guest told, at most MAX_NODES of it, in its order."""
    return [_node(one) for one in islice(told, MAX_NODES)]


def _node(told: Told) -> Node:
    said = told.role.lower().replace("-", " ")
    role = _ROLES.get(said, said if said in ROLES else "generic")
    if "selectable" in told.states:
        role = _IF_SELECTABLE.get(role, role)
    states = {_STATES[state] for state in told.states if state in _STATES}
    if "expandable" in told.states and "expanded" not in states:
        states.add("collapsed")
    name, value = told.name[:MAX_NAME], told.value[:MAX_VALUE]
    if said == "toggle button" and "checked" in states:
        states = states - {"checked"} | {"pressed"}
    if said == "password text":
        states.add("password")
        value = ""
    if not name and role not in _HAVE_VALUES:
        name, value = value[:MAX_NAME], ""
    box = told.box if told.box[2] > 0 and told.box[3] > 0 else (0, 0, 0, 0)
    parent = None if told.parent is None else str(told.parent)[:MAX_ID]
    return Node(role, name, box, str(told.id)[:MAX_ID], parent, value, tuple(sorted(states)))
