"""A run on a real Ray cluster goes on when its engine is killed, a whole node, or its trainer."""

import asyncio
import io
import json
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from guiagent.embedded import private_pool
from guiagent.errors import InfrastructureError
from guiagent.trajectories import TrajectoryStore
from guiagent.wire import Endpoint
from training.config import RayConfig, RolloutConfig, TrainConfig, UpdateConfig
from training.launch.ray import train_on_ray


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (160, 224), "white").save(buffer, "PNG")
    return buffer.getvalue()


PICTURE = _picture()


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """The package, told to stay on loopback before it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
        yield pytest.importorskip("ray", reason="there is no Ray")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket's path has 107 characters."""
    path = Path(tempfile.mkdtemp(prefix="gr-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def one_node(ray: Any, folder: Path) -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        _temp_dir=str(folder),
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()


@pytest.fixture
def two_nodes(ray: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head with room for all, and a node beside it."""
    from ray.cluster_utils import Cluster

    (folder / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    node = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    quick = {
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 5000,
        "health_check_failure_threshold": 3,
    }
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 16, "_system_config": quick, **node},
    )
    cluster.add_node(num_cpus=4, **node)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    try:
        with private_pool("browser=3@160x224") as endpoint:
            yield endpoint
    except InfrastructureError as missing:
        pytest.skip(str(missing))


def config_of(checkpoint: Path, steps: int, **ray: Any) -> TrainConfig:
    return TrainConfig(
        tasks=("click-test", "click-button"),
        policy=str(checkpoint),
        steps=steps,
        checkpoint_minutes=0.01,
        rollout=RolloutConfig(devices=2, group_size=2, max_new_tokens=4),
        update=UpdateConfig(groups=2),
        ray=RayConfig(**ray),
    )


def processes(name: str) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name().startswith(name) or name in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:  # it ended meanwhile
            continue
    return found


def check_counts(run: Path, steps: int) -> None:
    """Every update once; every seat played once; what was learned from is what the store holds."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, steps + 1))
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        members = Counter((t.group, t.group_index) for t in store)
        groups = Counter(t.group for t in store)
        assert all(store.frame(step.frame) for t in store for step in t.steps)
    assert set(members.values()) == {1}
    assert sum(count == 2 for count in groups.values()) >= 2 * steps
    newest = max((run / "checkpoints").glob("step-*"))
    state = json.loads((newest / "state.json").read_text())["state"]
    stats = state["replay"]["stats"]
    assert stats["taken"] == 2 * steps
    closed = stats["taken"] + stats["stale"] + stats["invalid"] + stats["flat"]
    assert closed + len(state["replay"]["pending"]) == state["replay"]["opened"]


def test_without_ray_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Path, tmp_path: Path
) -> None:
    from training.launch import ray as launcher

    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    config = config_of(checkpoint, 1)
    with pytest.raises(InfrastructureError, match=r"pip install 'guiagent\[ray\]'"):
        train_on_ray(config, str(tmp_path), ("http://127.0.0.1:9", ""), print, print, nullcontext)


async def test_an_engine_takes_whole_weights_and_comes_back_from_a_kill(
    ray: Any, one_node: None, checkpoint: Path
) -> None:
    from training.encode import Encoder
    from training.engine.engine import Request
    from training.launch.ray_driver import host_of
    from training.launch.ray_engines import EngineHost, RayEngine
    from training.pretrained import open_model

    encoder = Encoder(checkpoint)
    ids, frames = encoder.first_prompt("Click.", encoder.picture(PICTURE)), [PICTURE]
    host = host_of(EngineHost, 1, 0).options(name="engine").remote(config_of(checkpoint, 1), 0)
    engine = RayEngine("engine")
    request = Request("a", ids, frames)
    assert await host.generate.remote(request) is None  # it has no weights yet
    assert not await host.load_weights.remote(b"torn", "0" * 32, 5)
    assert await host.version.remote() == -1
    try:
        state = open_model(checkpoint).state_dict()
        await asyncio.to_thread(engine.load_weights, state, 7)
        completion = await engine.generate(request)
        assert completion.versions == [(0, 7)] and 1 <= len(completion.ids) <= 4
        (process,) = processes("ray::EngineHost")
        process.send_signal(signal.SIGKILL)
        completion = await engine.generate(Request("b", ids, frames))  # waits for it, and for its weights
        assert completion.versions == [(0, 7)]
        assert processes("ray::EngineHost") != [process]
    finally:
        engine.close()


@pytest.mark.drill
@pytest.mark.browser
def test_a_node_is_killed_and_the_run_comes_to_its_end(
    pool: Endpoint, two_nodes: Any, checkpoint: Path, tmp_path: Path
) -> None:
    killed: list[str] = []

    def progress(update: Any) -> None:
        if update.step == 5 and not killed:
            (node,) = [node for node in two_nodes.list_all_nodes() if not node.head]
            (raylet,) = node.all_processes["raylet"]
            actors = psutil.Process(raylet.process.pid).children(recursive=True)
            killed.extend(actor.name() for actor in actors)
            os.kill(raylet.process.pid, signal.SIGKILL)

    config = config_of(checkpoint, 40, address=two_nodes.address, workers=2, engines=2)
    warnings: list[str] = []
    farm = (pool.url, pool.token)
    trained = train_on_ray(config, str(tmp_path / "run"), farm, progress, warnings.append, nullcontext)
    assert {"ray::EngineHost", "ray::PlayersHost"} <= {name.partition(".")[0] for name in killed}
    assert trained.step == 40
    check_counts(tmp_path / "run", 40)


@pytest.mark.drill
@pytest.mark.browser
def test_the_trainer_is_killed_and_another_one_goes_on(
    pool: Endpoint, ray: Any, checkpoint: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def progress(update: Any) -> None:
        if update.step == 5 and not killed:
            (process,) = processes("ray::TrainerHost")
            killed.append(process.pid)
            process.send_signal(signal.SIGKILL)

    warnings: list[str] = []
    farm = (pool.url, pool.token)
    config = config_of(checkpoint, 12, workers=1)
    trained = train_on_ray(config, str(tmp_path / "run"), farm, progress, warnings.append, nullcontext)
    assert killed and trained.step == 12
    assert any("another one goes on" in warning for warning in warnings)
    check_counts(tmp_path / "run", 12)
