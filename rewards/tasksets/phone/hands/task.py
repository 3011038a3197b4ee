"""A phone task that also shows how it is done, action by action, on the phone's screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guiagent.actions import Action
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Observation
from rewards.tasksets.phone.hands.dues import all_outstanding
from rewards.tasksets.phone.hands.scene import Scene
from rewards.tasksets.phone.hands.ways import todo
from rewards.tasksets.phone.task import PhoneTask, document_of, phone_of

_ABOVE, _BELOW = "Battery charged, 100 percent", "Back"  # what the keyboard is between, in the tree


@dataclass
class PhoneTaskByHand(PhoneTask):
    """A `Demonstrable` task: what is left to do comes from the phone's tables, how from its screen."""

    async def next_actions(self, device: Device, observation: Observation) -> Sequence[Action]:
        """The next action from where the phone is, whoever brought it there; none at the goal.

        Raises:
            FaultError: the observation has no tree, or the phone is not the virtual one.
        """
        if observation.tree is None:
            raise FaultError(Fault("task", "no_tree", f"{self.id} is shown by the elements of the screen"))
        phone = phone_of(device, await device.describe())
        state = await self.tables(phone)
        goal = {*(fact.source.name for fact in self.scenario.goal), *(one.name for one in self.scenario.kept)}
        sources = [one for one in self.watched() if one.name in goal or self.scenario.infeasible]
        dues = all_outstanding(self.scenario.goal, sources, self.before, state)
        scene = scene_of(observation, await document_of(phone))
        return todo(self.id, self.scenario, scene, dues, state)


def scene_of(observation: Observation, document: Mapping[str, Any]) -> Scene:
    """What a phone shows, by its tree and its document: the nodes of the app, without bars and keyboard."""
    front = document["foreground"]
    activity, parameters = front["screens"][-1]
    nodes = observation.tree or []
    app, keyboard, toast = parted([node.name for node in nodes], [node.box[1] for node in nodes])
    return Scene(
        front["package"],
        activity,
        nodes[:app],
        (observation.width, observation.height),
        parameters,
        document["tasks"],
        keyboard,
        toast,
    )


def parted(names: Sequence[str], tops: Sequence[int]) -> tuple[int, bool, str]:
    """How many of a tree's first nodes are the app's, whether a keyboard comes after them, and a toast.

    The app's nodes are followed by those of the bar above it, the keyboard, the bar below it, and a toast.
    """
    if _ABOVE not in names or _BELOW not in names:
        return len(names), False, ""
    bar = len(names) - 1 - names[::-1].index(_ABOVE)
    app = next((number for number in range(bar, 0, -1) if tops[number - 1] > 2 * tops[bar]), 0)
    below = names[bar:].index(_BELOW) + bar
    return app, below > bar + 1, " ".join(names[below + 3 :])
