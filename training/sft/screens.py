"""Screens, each with what its accessibility tree says is written where: material to learn reading from."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from guiagent.client import FarmClient
from guiagent.client.play import DeviceSlot, play
from guiagent.errors import DECODE_ERRORS, InfrastructureError
from guiagent.protocols import Device, Task
from guiagent.seeds import DEMONSTRATIONS
from guiagent.storage.atomic import write_file
from guiagent.types import FrameFormat, Node, ObserveSpec
from training.config import PlatformConfig
from training.sft.demonstrations import begun, demonstrable
from training.stages import StagesConfig

_MOST_TAPS = 5  # before a screen is looked at, so that not all of them are where tasks begin


class Screen(msgspec.Struct, frozen=True):
    """A frame, its size in pixels, and the elements with a name and a place on it, from back to front."""

    frame: bytes
    width: int
    height: int
    elements: list[Node]


def plan(config: StagesConfig, screens: int) -> Iterator[tuple[PlatformConfig, list[Task]]]:
    """Yield each platform of a recipe with the tasks to look at, at their beginning or a few taps on.

    Raises UsageError for a task without an oracle, and so none to say what can be tapped.
    """
    rng = random.Random(f"screens/{config.seed}")
    for platform, count in config.shown_on(screens):
        taskset, names = demonstrable(platform)
        drawn = [
            (taskset.task(rng.choice(names), rng.choice(DEMONSTRATIONS)), rng.randint(0, _MOST_TAPS))
            for _ in range(count)
        ]
        yield platform, [begun(task, 0, taps) for task, taps in drawn]


async def look(
    farm: FarmClient, platform: PlatformConfig, tasks: Sequence[Task], on_screen: Callable[[int], None]
) -> list[Screen]:
    """Return a screen of each task, in their order.

    Raises:
        FaultError: a device failed.
    """
    kind, found = platform.device, dict[int, Screen]()

    async def see(job: tuple[int, Task], slot: DeviceSlot) -> None:
        number, task = job
        found[number] = await slot.run(partial(_seen, task, kind.frame))
        on_screen(len(found))

    leases = [
        DeviceSlot(partial(farm.lease, kind.kind, grants=kind.grants, label=f"screens {number}"))
        for number in range(platform.devices)
    ]
    by_task = sorted(enumerate(tasks), key=lambda job: job[1].id)  # another page costs more than another seed
    await play(by_task, leases, see)
    return [found[number] for number in sorted(found)]  # in an order that no device decides


def save(path: Path, screens: Sequence[Screen]) -> None:
    """Write screens to a file in one step. Raises InfrastructureError if it cannot be written."""
    write_file(path, msgspec.msgpack.encode(screens))


def load(path: Path) -> list[Screen]:
    """Read what `save` wrote. Raises InfrastructureError for a damaged file."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=list[Screen])
    except (OSError, *DECODE_ERRORS) as error:
        raise InfrastructureError(f"{path} holds no screens ({error}): remove it to take new ones") from error


async def _seen(task: Task, frame: FrameFormat, device: Device) -> Screen:
    spec = ObserveSpec(frame=frame, tree=True, probes=dict(task.probes))
    _, shown = await task.setup(device, spec)
    await task.teardown(device)
    width, height = shown.width, shown.height
    elements = [
        one
        for one in shown.tree or []
        if one.name and 0 <= one.box[0] < width and 0 <= one.box[1] < height and min(one.box[2:]) > 0
    ]
    return Screen(shown.frame, width, height, elements)
