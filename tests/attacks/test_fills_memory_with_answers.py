"""Answers are kept for callers that ask again, but not without a bound."""

from collections.abc import Sequence

from devices.config import SimConfig, named
from devices.drivers import Driver
from devices.drivers.sim import SimDevice
from devices.hosts.local import DeviceHost
from devices.leases import Lease
from guiagent.actions import Action
from guiagent.types import Observation, ObserveSpec
from guiagent.wire import StepRequest

_MIB = 1 << 20
LEASE = Lease("x", "sim-0", 1, 60.0, frozenset(), "", "")


class Large(SimDevice):
    """Each of its frames is 4 MiB, and says how many there have been."""

    acts = 0

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        self.acts += 1
        return Observation(9, 9, frame=self.acts.to_bytes(2, "big") + bytes(4 * _MIB))


async def start(config: SimConfig) -> Large:
    return Large(config)


def step(key: int) -> StepRequest:
    import msgspec

    return StepRequest(1, f"k{key}", msgspec.Raw(b"[]"))


async def test_large_answers_are_forgotten_before_they_fill_the_memory() -> None:
    host = DeviceHost(named([SimConfig(count=1)]), {"sim": Driver(start)})
    await host.start("sim-0")
    host.open("sim-0", stale=False)
    try:
        for key in range(60):
            shown = await host.call(LEASE, step(key))
            assert await host.call(LEASE, step(key)) is shown  # the newest is always kept
        acted = 0
        for key in range(59, -1, -1):
            before = host.records["sim-0"].driver.acts
            await host.call(LEASE, step(key))
            acted += host.records["sim-0"].driver.acts - before
        assert acted >= 60 - 6  # few were remembered
    finally:
        await host.close()
