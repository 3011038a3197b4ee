"""Publish weights to an engine while the learner continues: one version at a time, in order.

The trainer waits only for the version before, and for a copy of the weights, which its next step cannot
change; then it continues. An update then takes as long as the slower of learning and publishing, instead of
both; what is sampled meanwhile is one version older. Weights are copied, and gathered from all processes, in
a thread: leases are renewed meanwhile, however large a model is.
"""

import asyncio
from collections.abc import Callable, Mapping

import torch

from training.engine.engine import Engine


class Publisher:
    """Publish weights to an engine; `published` is called with each version that has arrived."""

    def __init__(self, engine: Engine, published: Callable[[int], None]) -> None:
        self._engine = engine
        self._published = published
        self._running: asyncio.Task[None] | None = None

    async def publish(self, weights: Callable[[], Mapping[str, torch.Tensor]], version: int) -> None:
        """Begin to publish the copies that `weights` makes, and return as soon as it has made them.

        Raises InfrastructureError if the version before did not arrive.
        """
        await self.settle()
        copies = await asyncio.to_thread(weights)
        self._running = asyncio.create_task(self._bring(copies, version))
        self._running.add_done_callback(_seen)

    async def settle(self) -> None:
        """Wait until everything published has arrived. Raises InfrastructureError if it did not."""
        running, self._running = self._running, None
        if running is not None:
            await running

    async def _bring(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        await asyncio.to_thread(self._engine.load_weights, weights, version)
        self._published(version)


def _seen(bringing: "asyncio.Task[None]") -> None:
    """Retrieve the task's exception, or asyncio prints its traceback when a run ends for another reason."""
    if not bringing.cancelled():
        bringing.exception()
