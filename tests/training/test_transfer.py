"""Weights on their way to engines in other processes: in buckets, each once, whole or not at all."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from guiagent.errors import InfrastructureError
from training.engine.engine import EngineStats
from training.engine.transfer import Arriving, packed, prepared

EMBEDDING = torch.randn(40, 8)
STATE = {
    "embedding": EMBEDDING,
    "head": EMBEDDING,  # tied
    "norm": torch.randn(3, dtype=torch.float64),
    "flags": torch.tensor([1, 2, 3], dtype=torch.uint8),
    "scalar": torch.tensor(0.5),
    "none": torch.empty(0, 8),
}
HALF = {"embedding": torch.bfloat16}


def test_a_version_arrives_bit_for_bit_in_buckets_of_any_size_and_order() -> None:
    for most in (1, 7, 64, 10_000):
        version = prepared(3, STATE, HALF, most)
        assert list(version.tensors) == ["embedding", "norm", "flags", "scalar", "none"]  # the tied one once
        arriving = Arriving(3, version.plan)
        count = len(version.plan.buckets)
        for number in reversed(range(count)):
            assert not arriving.whole
            data, digest = packed(version, number)
            assert data.nbytes <= most
            assert arriving.put(number, data, digest)
        assert arriving.whole
        for name, tensor in arriving.tensors.items():
            expected = STATE[name].to(HALF.get(name, STATE[name].dtype))
            assert tensor.dtype == expected.dtype and torch.equal(tensor, expected), name


def test_a_damaged_bucket_leaves_a_version_that_is_not_whole() -> None:
    version = prepared(3, STATE, {}, 256)
    arriving = Arriving(3, version.plan)
    for number in range(len(version.plan.buckets)):
        data, digest = packed(version, number)
        if number == 2:
            data = data.copy()
            data[5] ^= 1
        assert arriving.put(number, data, digest) is (number != 2)
    assert not arriving.whole


class Answer:
    def __init__(self, value: Any) -> None:
        self.value = value


class Cluster:
    """Ray, as far as `RayEngine` uses it, in this process: each call of a host is made at once."""

    def __init__(self, hosts: Mapping[str, Any]) -> None:
        self.hosts = hosts
        self.put_bytes: list[int] = []
        self.calls: list[tuple[str, str]] = []
        self.away: set[str] = set()
        self.before: dict[str, Callable[[], object]] = {}  # by the method: called once, when it has answered

    def get_actor(self, name: str) -> "Handle":
        return Handle(self, name)

    def put(self, data: Any) -> Any:
        self.put_bytes.append(data.nbytes)
        return data

    def wait(
        self, answers: list[Answer], *, num_returns: int, timeout: float
    ) -> tuple[list[Answer], list[Any]]:
        return [answer for answer in answers if answer.value is not self], []

    def get(self, answer: Answer) -> Any:
        return answer.value


class Handle:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Answer:
            cluster = self._cluster
            cluster.calls.append((self._name, method))
            if self._name in cluster.away:
                return Answer(cluster)
            answer = Answer(asyncio.run(getattr(cluster.hosts[self._name], method)(*arguments)))
            if (then := cluster.before.pop(method, None)) is not None:
                then()
            return answer

        call = Answer(None)
        call.remote = remote  # type: ignore[attr-defined]
        return call


class Engine:
    """Keeps what it was given."""

    stats = EngineStats()

    def __init__(self) -> None:
        self.loaded: list[tuple[int, dict[str, torch.Tensor]]] = []

    def load_weights(self, state: dict[str, torch.Tensor], version: int) -> None:
        self.loaded.append((version, {name: x.clone() for name, x in state.items()}))


@pytest.fixture
def hosts(ray: Any, tmp_path: Path) -> dict[str, Any]:
    """Two hosts, whose engines hold the embedding in half precision."""
    from training.launch.ray_engines import EngineHost

    save_file({"embedding": EMBEDDING.bfloat16()}, tmp_path / "model.safetensors")
    found = {}
    for name in ("one", "two"):
        host = object.__new__(EngineHost)
        host._checkpoint, host._engine = tmp_path, Engine()  # type: ignore[assignment]
        host._arriving, host._version = None, -1
        found[name] = host
    return found


def over(hosts: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, most: int) -> tuple[Any, Cluster]:
    from training.launch import ray_engines

    cluster = Cluster(hosts)
    monkeypatch.setattr(ray_engines, "ray", cluster)
    monkeypatch.setattr(ray_engines, "BUCKET_BYTES", most)
    monkeypatch.setattr(ray_engines.RayEngine, "_watch", lambda self: None)
    return ray_engines.RayEngine("one", "two"), cluster


def test_every_version_is_put_once_and_sent_once_to_each_host(
    hosts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a watcher sees it that asked for the hosts' versions just before one was sent: it used to send that
    version again."""
    engine, cluster = over(hosts, monkeypatch, 100)
    engine.load_weights(STATE, 1)
    size = 40 * 8 * 2 + 3 * 8 + 3 + 4  # the embedding in half precision, once; in float32, twice, it is 2,560
    assert sum(cluster.put_bytes) == size and max(cluster.put_bytes) <= 100
    assert engine.sent_bytes == 2 * size
    cluster.before["version"] = lambda: engine.load_weights(STATE, 2)
    engine._check_hosts()
    assert sum(cluster.put_bytes) == 2 * size and engine.sent_bytes == 4 * size
    engine._check_hosts()
    assert sum(cluster.put_bytes) == 2 * size
    for host in hosts.values():
        assert [version for version, _ in host._engine.loaded] == [1, 2]
        for name, tensor in host._engine.loaded[-1][1].items():
            assert torch.equal(tensor, STATE[name].to(tensor.dtype))
        assert host._engine.loaded[-1][1]["embedding"].dtype == torch.bfloat16


def test_a_host_that_was_away_is_sent_the_newest_version_alone(
    hosts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cluster = over(hosts, monkeypatch, 10_000)
    cluster.away = {"two"}
    engine.load_weights(STATE, 1)
    engine.load_weights(STATE, 2)
    assert not hosts["two"]._engine.loaded
    cluster.away = set()
    before = engine.sent_bytes
    engine._check_hosts()
    assert [version for version, _ in hosts["two"]._engine.loaded] == [2]
    assert [version for version, _ in hosts["one"]._engine.loaded] == [1, 2]
    assert engine.sent_bytes - before == before // 2


def test_a_host_that_begins_anew_amid_a_version_gets_all_of_it_later(
    hosts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cluster = over(hosts, monkeypatch, 100)
    cluster.before["take_bucket"] = lambda: setattr(hosts["one"], "_arriving", None)
    engine.load_weights(STATE, 1)
    assert not hosts["one"]._engine.loaded and hosts["two"]._engine.loaded
    engine._check_hosts()
    assert [version for version, _ in hosts["one"]._engine.loaded] == [1]


def test_what_arrives_damaged_is_one_line_and_the_old_weights_stay(
    hosts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = over(hosts, monkeypatch, 100)
    engine.load_weights(STATE, 1)
    put = hosts["two"].take_bucket

    async def torn(version: int, number: int, data: Any, digest: str) -> Any:
        return await put(version, number, data, digest if number != 1 else "0" * 32)

    hosts["two"].take_bucket = torn
    with pytest.raises(InfrastructureError, match=r"version 2 came to an engine damaged.*old ones"):
        engine.load_weights(STATE, 2)
    assert [version for version, _ in hosts["two"]._engine.loaded] == [1]
