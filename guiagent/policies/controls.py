"""Find the controls in an observation's accessibility tree: the elements that a person would click."""

from guiagent.nodes import centre
from guiagent.types import Node, Observation

_CONTROLS = frozenset(
    {"button", "checkbox", "combobox", "gridcell", "link", "menuitem", "menuitemcheckbox"}
    | {"menuitemradio", "option", "radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox"}
    | {"treeitem"}
)


def control_centres(observation: Observation) -> list[tuple[int, int]]:
    """The centres of the enabled controls that lie on the screen, in pixels and in the tree's order."""
    spots = (centre(node.box) for node in observation.tree or [] if _is_control(node))
    return [(x, y) for x, y in spots if 0 <= x < observation.width and 0 <= y < observation.height]


def _is_control(node: Node) -> bool:
    clickable = "clickable" in node.states or node.role in _CONTROLS
    return clickable and "disabled" not in node.states and node.box[2] > 0 and node.box[3] > 0
