"""A tenant that takes a device whose connections nobody limits, to reach what its egress rules forbid."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from devices import specs
from devices.api.server import running
from devices.config import AndroidConfig, PoolConfig, RemoteConfig, SimConfig
from devices.drivers import DRIVERS
from devices.drivers.sim import SimDevice
from guiagent.client import FarmClient
from guiagent.errors import InfrastructureError, UsageError
from guiagent.types import Capabilities, ObserveSpec
from tests.support import guest_session

TOKEN = "a-token-for-the-tests"
NOTHING = ObserveSpec(frame="none")


def test_a_device_that_cannot_limit_egress_is_offered_only_where_the_operator_says_so() -> None:
    for word in ("android:emulator-5554", "android:avd=pixel"):
        with pytest.raises(UsageError, match=r"egress rules of leases would not hold.*unlimited_egress"):
            specs.parse([word])
    with pytest.raises(ValidationError, match="unlimited_egress"):
        RemoteConfig(url="osworld://10.0.0.1:5000")
    assert AndroidConfig(serial="a", unlimited_egress=True).serial == "a"


async def test_it_shows_and_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    with guest_session.session(tmp_path / "guest") as session, session.client() as client:
        url = f"osworld://{client.base_url.host}:{client.base_url.port}"
        device = RemoteConfig(url=url, of="desktop", unlimited_egress=True)
        config = PoolConfig(state_dir=tmp_path / "pool", port=0, token=TOKEN, devices=[device])
        async with running(config) as farm, FarmClient(farm.endpoint.url, TOKEN) as pool:
            await farm.service.settled()
            (shown,) = (await pool.devices()).devices
            assert "unlimited_egress" in shown.features
            async with pool.lease("desktop", egress=["example.org"]) as held:
                with pytest.raises(UsageError, match="cannot bound what it reaches"):
                    await held.observe(NOTHING)


async def test_rules_reach_the_pool_that_enforces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enforced: list[tuple[str, ...]] = []

    async def allow(self: SimDevice, egress: tuple[str, ...]) -> None:
        enforced.append(tuple(egress))

    monkeypatch.setattr(SimDevice, "allow", allow)
    there = PoolConfig(state_dir=tmp_path / "far", port=0, token=TOKEN, devices=[SimConfig()])
    async with running(there) as far:
        remote = RemoteConfig(url=far.endpoint.url, token=SecretStr(TOKEN), of="sim")
        here = PoolConfig(state_dir=tmp_path / "near", port=0, token=TOKEN, devices=[remote])
        async with running(here) as near, FarmClient(near.endpoint.url, TOKEN) as farm:
            async with farm.lease("sim", egress=["example.org:443"]) as device:
                await device.observe(NOTHING)
                assert enforced[-1] == ("example.org:443",)
            async with farm.lease("sim") as device:
                await device.observe(NOTHING)
                assert enforced[-1] == ("public",)


async def test_a_pool_that_does_not_limit_its_devices_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe(self: SimDevice) -> Capabilities:
        return Capabilities("sim", 320, 240, ["unlimited_egress"])

    monkeypatch.setattr(SimDevice, "describe", describe)
    there = PoolConfig(state_dir=tmp_path / "far", port=0, token=TOKEN, devices=[SimConfig()])
    async with running(there) as far:
        remote = RemoteConfig(url=far.endpoint.url, token=SecretStr(TOKEN), of="sim")
        with pytest.raises(InfrastructureError, match="unlimited_egress"):
            await DRIVERS["remote"].start(remote)
