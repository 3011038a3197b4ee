"""A device of another pool, held under a lease there and offered by this pool."""

from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from typing import get_args

from devices.config import RemoteConfig
from guiagent.actions import Action
from guiagent.client import FarmClient, LeasedDevice
from guiagent.errors import InfrastructureError, UsageError
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec
from guiagent.wire import Grant

_BLANK = ResetSpec()
_PUBLIC = ("public",)
_UNLIMITED = "unlimited_egress"
_WAIT_S = 30.0
_LABEL = "offered on by another pool"


class PooledDevice:
    """A `devices.drivers.HostedDevice` with every capability of the other pool's device, and `Networked`.

    A reset to the blank baseline gives the device back and leases one again, so that the other pool wipes and
    attests it.
    """

    def __init__(self, farm: FarmClient, kind: str, grants: Sequence[Grant], device: LeasedDevice) -> None:
        self._farm = farm
        self._kind = kind
        self._grants = grants
        self._device = device
        self._egress: Sequence[str] = _PUBLIC

    @classmethod
    async def start(cls, config: RemoteConfig) -> "PooledDevice":
        if config.token is None:
            raise UsageError(f"the pool at {config.url} asks for its token: set `token` for this device")
        farm = FarmClient(config.url, config.token.get_secret_value())
        try:
            features = await _features(farm, config.of)
            if _UNLIMITED in features and not config.unlimited_egress:
                message = (
                    f"the pool at {config.url} does not limit what its {config.of} devices reach, so that "
                    "the egress rules of leases would not hold: to offer them all the same set "
                    "`unlimited_egress = true` for this device"
                )
                raise InfrastructureError(message)
            # All that they have a feature for: the lease in this pool decides which of them a holder has.
            grants = [grant for grant in get_args(Grant) if grant in features]
            return cls(farm, config.of, grants, await _taken(farm, config.of, grants, _PUBLIC))
        except BaseException:
            await farm.close()
            raise

    async def describe(self) -> Capabilities:
        return await self._device.describe()

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        if baseline == _BLANK:
            await self._exchange()
        return await self._device.reset(seed, baseline, spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        return await self._device.observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        return await self._device.act(actions, spec)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        return await self._device.exec(command, timeout_s)

    async def put(self, path: str, data: bytes) -> None:
        await self._device.put(path, data)

    async def get(self, path: str) -> bytes:
        return await self._device.get(path)

    async def snapshot(self) -> str:
        return await self._device.snapshot()

    async def connect(self, service: str) -> tuple[StreamReader, StreamWriter]:
        return await self._device.connect(service)

    async def allow(self, egress: Sequence[str]) -> None:
        """Let the other pool enforce these rules. Other rules need another lease there, of a blank device.

        Raises UsageError for rules that the other pool does not grant.
        """
        if tuple(egress) != tuple(self._egress):
            self._egress = tuple(egress)
            await self._exchange()

    async def attest(self) -> str:
        return f"attested by the pool at {self._farm.url}"

    async def health(self) -> Health:
        return await self._device.health()

    async def close(self) -> None:
        await self._farm.close()

    async def _exchange(self) -> None:
        """Give the device back and lease one again."""
        await self._device.close()
        self._device = await _taken(self._farm, self._kind, self._grants, self._egress)


async def _features(farm: FarmClient, kind: str) -> list[str]:
    """Features of the other pool's devices of this kind, as one of them describes itself."""
    async with farm.lease(kind, label=_LABEL, wait=_WAIT_S) as one:
        return (await one.describe()).features


async def _taken(farm: FarmClient, kind: str, grants: Sequence[Grant], egress: Sequence[str]) -> LeasedDevice:
    return await farm.lease(kind, grants=grants, egress=egress, label=_LABEL, wait=_WAIT_S)
