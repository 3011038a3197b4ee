"""Find the controls in an observation's accessibility tree: the elements that a person would click."""

from guiagent.nodes import centre, is_control
from guiagent.types import Observation


def control_centres(observation: Observation) -> list[tuple[int, int]]:
    """The centres of the enabled controls that lie on the screen, in pixels and in the tree's order."""
    controls = (node.box for node in observation.tree or [] if is_control(node))
    spots = (centre(box) for box in controls if box[2] > 0 and box[3] > 0)
    return [(x, y) for x, y in spots if 0 <= x < observation.width and 0 <= y < observation.height]
