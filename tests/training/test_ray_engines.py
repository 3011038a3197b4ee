"""The engines of a Ray cluster: what goes to their hosts turn by turn, what they say of themselves, and what
becomes of an episode that is cancelled.
"""

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.conversing import screen
from training.config import RolloutConfig, TrainConfig
from training.engine.engine import EngineStats, Request
from training.inputs.encoder import Encoder
from training.model.pretrained import open_model


@pytest.fixture(scope="module")
def cluster(ray: Any) -> Iterator[Any]:
    """Of one node, on loopback and with a token."""
    folder = Path(tempfile.mkdtemp(prefix="gr-", dir="/tmp"))  # short: a socket's path has 107 characters
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        _temp_dir=str(folder),
        log_to_driver=False,
        configure_logging=False,
    )
    yield ray
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


class Hosts:
    """An engine on a host of its own, the engine over it, and what was sent to the host."""

    def __init__(self, checkpoint: Path, name: str, **rollout: Any) -> None:
        import ray

        from training.launch.ray_driver import host_of
        from training.launch.ray_engines import EngineHost, RayEngine

        config = TrainConfig(policy=str(checkpoint), rollout=RolloutConfig(devices=1, **rollout))
        self.encoder = Encoder(checkpoint)
        self.host = host_of(EngineHost, 1, 0).options(name=name).remote(config, 0)
        self.engine = RayEngine(name)
        self.sent: list[int] = []  # bytes of screenshots, message by message
        ask = self.engine._ask

        def listen(host: Any, request: Request, names: list[str], sending: set[str]) -> Any:
            frames = dict(zip(names, request.frames, strict=True))
            self.sent.append(sum(len(frames[name]) for name in sending))
            return ask(host, request, names, sending)

        self.engine._ask = listen  # type: ignore[method-assign]
        self.engine.load_weights(open_model(checkpoint).state_dict(), 7)
        give_up = time.monotonic() + 120  # a slow host gets them later; until then it asks to be asked again
        while ray.get(self.host.version.remote()) != 7:
            assert time.monotonic() < give_up, "the host has no weights"
            time.sleep(0.05)

    def requests(self, turns: int) -> Iterator[Request]:
        ids: list[int] = []
        frames: list[bytes] = []
        for turn in range(turns):
            frames.append(screen(turn).frame)
            picture = self.encoder.picture(frames[-1])
            more = self.encoder.next_prompt(picture, ended=False) if ids else None
            ids += more or self.encoder.first_prompt("Click.", picture)
            yield Request("e", list(ids), list(frames))

    async def sampled(self) -> int:
        stats: EngineStats = await self.host.stats.remote()
        return stats.sampled_tokens

    async def stats_of(self, tokens: int) -> EngineStats:
        """What the engine over the host says, when it has heard of so many."""
        async with asyncio.timeout(120):
            while self.engine.stats.sampled_tokens != tokens:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.05)
        return self.engine.stats


@pytest.mark.slow
async def test_a_turn_sends_one_screenshot_and_one_that_is_cancelled_is_sampled_no_longer(
    cluster: Any, checkpoint: Path
) -> None:
    """Each of these completions would have thousands of tokens, in a slot that others wait for."""
    longest = 3000
    hosts = await asyncio.to_thread(Hosts, checkpoint, "cancelled", max_new_tokens=longest, temperature=0)
    try:
        requests = list(hosts.requests(4))
        for request in requests:
            before = await hosts.sampled()
            running = asyncio.create_task(hosts.engine.generate(request))
            while await hosts.sampled() < before + 3 and not running.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert hosts.sent == [len(frame) for frame in requests[-1].frames]
        now, before = await hosts.sampled(), -1
        while now != before:
            await asyncio.sleep(1)
            now, before = await hosts.sampled(), now
        assert now < longest
        stats = await hosts.stats_of(now)
        assert stats.prompt_tokens == sum(len(request.ids) for request in requests)
        assert 0 < stats.cached_tokens < stats.prompt_tokens and stats.busy_s > 0
    finally:
        await asyncio.to_thread(hosts.engine.close)
        await hosts.host.close.remote()
        cluster.kill(hosts.host)


@pytest.mark.drill
async def test_a_host_that_died_is_sent_all_screenshots_and_what_it_did_is_still_counted(
    cluster: Any, checkpoint: Path
) -> None:
    hosts = await asyncio.to_thread(Hosts, checkpoint, "killed", max_new_tokens=4)
    try:
        requests = list(hosts.requests(4))
        sizes = [len(frame) for frame in requests[-1].frames]
        tokens = sum([len((await hosts.engine.generate(request)).ids) for request in requests[:3]])
        await hosts.stats_of(tokens)
        (process,) = [
            child
            for child in psutil.Process().children(recursive=True)
            if "ray::EngineHost" in " ".join(child.cmdline())
        ]
        process.send_signal(signal.SIGKILL)
        hosts.sent.clear()
        completion = await hosts.engine.generate(requests[3])  # waits for it, and for its weights
        assert completion.versions == [(0, 7)]
        assert hosts.sent[-1] == sum(sizes) and set(hosts.sent[:-1]) == {sizes[3]}
        await hosts.stats_of(tokens + len(completion.ids))
    finally:
        await asyncio.to_thread(hosts.engine.close)
        await hosts.host.close.remote()
        cluster.kill(hosts.host)


def test_what_a_host_did_in_an_earlier_life_is_not_lost(ray: Any) -> None:
    from training.launch.ray_engines import _Total

    total = _Total()
    for life in (
        EngineStats(1.0, 100, 40, 10),
        EngineStats(3.0, 300, 90, 30),
        EngineStats(),  # started anew
        EngineStats(0.5, 20, 0, 5),
    ):
        total.add(life)
    assert total.stats == EngineStats(3.5, 320, 90, 35)
