"""A run on a real Ray cluster goes on when its engine is killed, a whole node, or its trainer."""

import asyncio
import io
import json
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from guiagent.client.local_pool import private_pool
from guiagent.errors import InfrastructureError, MissingProgram
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.wire import Endpoint
from training.config import RayConfig, RolloutConfig, TrainConfig, UpdateConfig
from training.launch.ray import train_on_ray


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (160, 224), "white").save(buffer, "PNG")
    return buffer.getvalue()


PICTURE = _picture()


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


_NODE = {"object_store_memory": 100 * 2**20, "include_dashboard": False}


@pytest.fixture
def cluster_of(ray: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Starts a cluster of nodes with so many CPUs each, the head first."""
    from ray.cluster_utils import Cluster

    (folder / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "5")
    quick = {
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 5000,
        "health_check_failure_threshold": 3,
    }
    cluster: Any = None

    def start(head: int, *others: int) -> Any:
        nonlocal cluster
        arguments = {"num_cpus": head, "_system_config": quick, **_NODE}
        cluster = Cluster(initialize_head=True, head_node_args=arguments)
        for cpus in others:
            cluster.add_node(num_cpus=cpus, **_NODE)
        return cluster

    yield start
    ray.shutdown()
    if cluster is not None:
        cluster.shutdown()


def children(node: Any) -> list[psutil.Process]:
    """The processes of the actors on a node, and its raylet."""
    (raylet,) = node.all_processes["raylet"]
    process = psutil.Process(raylet.process.pid)
    return [process, *process.children(recursive=True)]


@pytest.fixture(scope="module")
def pool() -> Iterator[Endpoint]:
    try:
        with private_pool("browser=3@160x224") as endpoint:
            yield endpoint
    except MissingProgram as missing:
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


async def test_without_ray_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Path, tmp_path: Path
) -> None:
    from training.launch import ray as launcher

    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    config = config_of(checkpoint, 1)
    with pytest.raises(InfrastructureError, match=r"pip install 'guiagent\[ray\]'"):
        await train_on_ray(config, str(tmp_path), ("http://127.0.0.1:9", ""), print, print, nullcontext)


@pytest.mark.slow
async def test_an_engine_takes_whole_weights_and_comes_back_from_a_kill(
    ray: Any, one_node: None, checkpoint: Path
) -> None:
    from training.engine.engine import Request
    from training.engine.transfer import packed, prepared
    from training.inputs.encoder import Encoder
    from training.launch.ray_driver import host_of
    from training.launch.ray_engines import EngineHost, RayEngine
    from training.model.pretrained import open_model

    encoder = Encoder(checkpoint)
    ids, frames = encoder.first_prompt("Click.", encoder.picture(PICTURE)), [PICTURE]
    host = host_of(EngineHost, 1, 0).options(name="engine").remote(config_of(checkpoint, 1), 0)
    engine = RayEngine("engine")
    request = Request("a", ids, frames)
    assert await host.generate.remote(request) is None  # it has no weights yet
    state = open_model(checkpoint).state_dict()
    torn = prepared(5, state, {}, 2**20)
    assert await host.begin_weights.remote(5, torn.plan)
    assert await host.take_bucket.remote(5, 0, packed(torn, 0)[0], "0" * 32) is False
    assert await host.take_bucket.remote(4, 0, *packed(torn, 0)) is None
    assert await host.load_weights.remote(5) is False
    assert await host.version.remote() == -1
    try:
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
async def test_a_node_is_killed_and_the_run_comes_to_its_end(
    pool: Endpoint, cluster_of: Callable[..., Any], checkpoint: Path, tmp_path: Path
) -> None:
    cluster = cluster_of(16, 4)  # the head has room for all
    killed: list[str] = []

    def progress(update: Any) -> None:
        if update.step == 5 and not killed:
            (node,) = [node for node in cluster.list_all_nodes() if not node.head]
            raylet, *actors = children(node)
            killed.extend(actor.name() for actor in actors)
            raylet.kill()

    config = config_of(checkpoint, 40, address=cluster.address, workers=2, engines=2)
    warnings: list[str] = []
    farm = (pool.url, pool.token)
    trained = await train_on_ray(config, str(tmp_path / "run"), farm, progress, warnings.append, nullcontext)
    assert {"ray::EngineHost", "ray::RolloutHost"} <= {name.partition(".")[0] for name in killed}
    assert trained.step == 40
    check_counts(tmp_path / "run", 40)


@pytest.mark.drill
@pytest.mark.browser
async def test_the_trainer_is_killed_and_another_one_goes_on(
    pool: Endpoint, ray: Any, checkpoint: Path, tmp_path: Path
) -> None:
    killed: list[int] = []

    def progress(update: Any) -> None:
        if update.step == 5 and not killed:
            (process,) = processes("ray::RayTrainWorker")
            killed.append(process.pid)
            process.send_signal(signal.SIGKILL)

    warnings: list[str] = []
    farm = (pool.url, pool.token)
    config = config_of(checkpoint, 12, workers=1)
    trained = await train_on_ray(config, str(tmp_path / "run"), farm, progress, warnings.append, nullcontext)
    assert killed and trained.step == 12
    assert any("another one goes on" in warning for warning in warnings)
    check_counts(tmp_path / "run", 12)


@pytest.mark.drill
@pytest.mark.browser
async def test_trainers_of_two_nodes_lose_one_and_all_of_them_go_on(
    pool: Endpoint, cluster_of: Callable[..., Any], checkpoint: Path, tmp_path: Path
) -> None:
    cluster = cluster_of(3)  # for engine, players and one trainer: the other needs a node of its own
    warnings: list[str] = []
    shared: list[list[int]] = []  # how many trainers each node had, before the loss and after it

    def warn(warning: str) -> None:
        warnings.append(warning)
        if warning.startswith("waiting for room for 2 trainers"):
            cluster.add_node(num_cpus=1, **_NODE)

    def progress(update: Any) -> None:
        if update.step == (15 if shared else 5):
            nodes = sorted(cluster.list_all_nodes(), key=lambda node: not node.head)
            names = [[process.name() for process in children(node)] for node in nodes]
            shared.append([sum("RayTrainWork" in name for name in own) for own in names])
            if len(shared) == 1:
                children(nodes[1])[0].kill()
                cluster.remove_node(nodes[1], allow_graceful=False)

    config = config_of(checkpoint, 20, address=cluster.address, workers=1, trainers=2)
    farm = (pool.url, pool.token)
    trained = await train_on_ray(config, str(tmp_path / "run"), farm, progress, warn, nullcontext)
    assert trained.step == 20
    assert shared == [[1, 1], [1, 1]]
    assert sum("another one goes on" in warning for warning in warnings) == 1
    check_counts(tmp_path / "run", 20)
