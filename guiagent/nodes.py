"""The words of accessibility trees, and the search in them: pure functions on the nodes of an observation."""

from guiagent.types import Box

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
