"""Where a task on WebArena's sites starts: its pages, each in a tab of its own, in a logged-in browser."""

from collections.abc import Collection, Sequence

from guiagent.actions import Open
from guiagent.protocols import Device
from guiagent.types import Observation, ObserveSpec, ResetSpec
from rewards.tasksets.webarena import sites


def profile_of(names: Collection[str]) -> str:
    """The browser profile in which the user has logged in at these sites: "webarena-gitlab-reddit"."""
    return "-".join(["webarena", *sorted(names)])


async def open_pages(
    device: Device, seed: int, urls: Sequence[str], profile: str | None, spec: ObserveSpec
) -> Observation:
    """Reset a browser to the first page, open the others in tabs behind it, and show the first.

    Raises FaultError if a page cannot be opened, or the profile is in use by another browser.
    """
    first, *others = urls
    shown = await device.reset(seed, ResetSpec(first, profile=profile), spec)
    for url in others:
        await device.act([Open(target="tab:new")], sites.BLIND)
        await sites.opened(device, url)
    if others:
        shown = await device.act([Open(target="tab:1")], spec)
    return shown
