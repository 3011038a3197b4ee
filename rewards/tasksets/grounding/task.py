"""A grounding item as a task of one step: the policy sees the picture and points at what is meant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from guiagent.actions import ACTION, ACTIONS, Click
from guiagent.client.still import STILL
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score
from rewards.tasksets.grounding.items import Item, hit

_TOUCHED = ObserveSpec(frame="none", probes={"touched": "touched"})


@dataclass(frozen=True)
class GroundingTask:
    """One item. `beside` are points on the elements of the same picture, its own among them.

    With `shown`, observations carry the probes "oracle" and "candidates".
    """

    item: Item
    seed: int
    beside: tuple[tuple[int, int], ...] = ()
    shown: bool = False
    max_steps: int = 1

    @property
    def id(self) -> str:
        return self.item.id

    @property
    def probes(self) -> Mapping[str, str]:
        return {"oracle": "oracle", "candidates": "candidates"} if self.shown else {}

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        """Show the picture. Raises FaultError (origin "task") on a device that shows none."""
        if (kind := (await device.describe()).kind) != STILL:
            message = f"{self.id} is a picture, which `guiagent eval` shows without a device, not on a {kind}"
            raise FaultError(Fault("task", "unsuitable_device", message))
        told = (
            {"oracle": _clicks([self.item.centre]), "candidates": _clicks(self.beside)} if self.shown else {}
        )
        state = {"picture": str(self.item.picture), "size": self.item.size, "told": told}
        shown = await device.reset(self.seed, ResetSpec(state=msgspec.to_builtins(state)), spec)
        return self.item.instruction, shown

    def ended(self, observation: Observation) -> bool:
        return True  # whatever the agent did: one look, one point

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        """1 if the first action points into the box. An answer, a claim or any other action is no point."""
        found = (await device.observe(_TOUCHED)).probes["touched"]
        point = None if found is None else (int(found[0]), int(found[1]))
        box = [round(side, 2) for side in self.item.box]
        if point is None:
            return Score(0.0, "check", "pointed nowhere", {"box": box})
        inside = hit(point, self.item.box)
        return Score(
            float(inside),
            "check",
            f"{point} is {'in' if inside else 'not in'} {box}",
            {"point": list(point), "box": box},
        )

    async def teardown(self, device: Device) -> None:
        pass

    # -- its own proof ---------------------------------------------------------------------------------------

    @property
    def mutants(self) -> Sequence[str]:
        return ("beside the box", "said to be done")

    async def oracle(self, device: Device) -> Ending:
        await device.act(ACTIONS.validate_python(_clicks([self.item.centre])), _TOUCHED)
        return Ending()

    async def mutate(self, mutant: str, device: Device) -> Ending:
        if mutant == "said to be done":
            return Ending(claim="success")
        await device.act(ACTIONS.validate_python(_clicks([_outside(self.item)])), _TOUCHED)
        return Ending()


def _clicks(points: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    return [ACTION.dump_python(Click(x=x, y=y), mode="json") for x, y in points]


def _outside(item: Item) -> tuple[int, int]:
    """A point beside the box: a pixel past its right edge, or before its left one, or above or below it."""
    left, top, right, bottom = item.box
    (width, height), (x, y) = item.size, item.centre
    beside = [(int(right) + 1, y), (int(left) - 1, y), (x, int(bottom) + 1), (x, int(top) - 1)]
    on = [(a, b) for a, b in beside if 0 <= a < width and 0 <= b < height]
    return on[0] if on else (width, height)  # the whole picture is the box: only off it is beside it
