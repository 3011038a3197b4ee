"""Find what an agent could do on a screen: the controls that a person would click, what a task names."""

from collections.abc import Sequence

from pydantic import ValidationError

from guiagent.actions import ACTIONS, Action, Click
from guiagent.errors import Fault, FaultError
from guiagent.nodes import centre, is_control
from guiagent.types import Observation


def touchable(observation: Observation) -> Sequence[Action]:
    """The actions that the task's probe "candidates" names, else a click on every control.

    Raises:
        FaultError: the probe is no list of actions, or there is neither such a probe nor a tree.
    """
    if "candidates" in observation.probes:
        return probed(observation, "candidates")
    if observation.tree is None:
        message = "the device's observations have no tree: there is no element to choose from"
        raise FaultError(Fault("device", "no_tree", message))
    return [Click(x=x, y=y) for x, y in control_centres(observation)]


def probed(observation: Observation, probe: str) -> Sequence[Action]:
    """The actions in a probe. Raises FaultError (origin "task") if it is not a list of actions."""
    try:
        return ACTIONS.validate_python(observation.probes.get(probe))
    except ValidationError:
        message = f"the probe {probe!r} is no list of actions: {observation.probes.get(probe)!r:.80}"
        raise FaultError(Fault("task", f"no_{probe}", message)) from None


def control_centres(observation: Observation) -> list[tuple[int, int]]:
    """The centres of the enabled controls that lie on the screen, in pixels and in the tree's order."""
    controls = (node.box for node in observation.tree or [] if is_control(node))
    spots = (centre(box) for box in controls if box[2] > 0 and box[3] > 0)
    return [(x, y) for x, y in spots if 0 <= x < observation.width and 0 <= y < observation.height]
