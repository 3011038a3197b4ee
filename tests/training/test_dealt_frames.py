"""Each process gets the screenshots of the trajectories that it learns from, and no others, each once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from guiagent.storage.trajectories import TrajectoryStore
from tests.drills.replayed import sample
from tests.support.dealing import CONTEXT, steps
from tests.support.ranks import SCHEDULE, config_of, furthest
from training.algorithms import find_algorithm
from training.distributed.ranks import SingleProcess
from training.inputs.encoder import Encoder
from training.learner.frames import DealtFrames
from training.learner.learner import Learner

OVERHEAD = 64  # bytes of a name and of lengths, for a screenshot


class Wire:
    """Three ranks in one process: what rank 0 last said to each."""

    def __init__(self) -> None:
        self.said: dict[int, bytes] = {}

    def seen_by(self, rank: int) -> "Rank":
        return Rank(self, rank)


class Rank(SingleProcess):
    world = 3

    def __init__(self, wire: Wire, rank: int) -> None:
        self._wire, self.rank = wire, rank

    def scatter(self, message):
        if self.rank:
            return self._wire.said[self.rank]
        self._wire.said = {rank: message(rank) for rank in range(1, self.world)}
        return b""


def test_each_gets_its_own_once() -> None:
    wire, asked = Wire(), []

    def stored(name: str) -> bytes:
        asked.append(name)
        return name.encode() * 10

    def nowhere(name: str) -> bytes:
        raise AssertionError(name)

    ranks = [DealtFrames(stored if rank == 0 else nowhere, wire.seen_by(rank)) for rank in range(3)]
    for frames in ranks:
        frames.deal([{"a", "b"}, {"b", "c"}, set()])
    assert asked == ["b", "c"]  # rank 0 reads its own when it needs them
    assert (ranks[1]("b"), ranks[1]("c")) == (b"b" * 10, b"c" * 10)
    with pytest.raises(KeyError):
        ranks[1]("a")
    asked.clear()
    for frames in ranks:
        frames.deal([{"c"}, {"a", "b"}, {"c"}])
    assert asked == ["a", "c"]  # what a process has is not sent again
    assert (ranks[1]("a"), ranks[1]("b"), ranks[2]("c")) == (b"a" * 10, b"b" * 10, b"c" * 10)
    assert ranks[0]("z") == b"z" * 10


@pytest.fixture(scope="module")
def source(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dealt") / "source"
    sample(checkpoint, folder, 2)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("world", "algorithm"), [(3, "arpo"), (2, "spa"), (3, "dart_paper")])
def test_over_gloo_pictures_go_where_they_are_learned_from(
    checkpoint: Path, source: Path, tmp_path: Path, world: int, algorithm: str
) -> None:
    (tmp_path / "source").symlink_to(source)
    (tmp_path / "work.json").write_text(json.dumps({"checkpoint": str(checkpoint), "algorithm": algorithm}))
    environment = os.environ | {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.dealing", str(tmp_path)],
            env=environment | {"RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * world, errors
    found = json.loads((tmp_path / "found.json").read_text())

    named, update = find_algorithm(algorithm), config_of(algorithm).update
    alone = Learner(checkpoint, Encoder(checkpoint), named, update, CONTEXT)
    with TrajectoryStore(source, readonly=True) as store:
        for one, together in zip(steps(alone, store), found["metrics"], strict=True):
            for name in ("loss", "grad_norm", "entropy", "trained_tokens", "packed_tokens"):
                assert together[name] == pytest.approx(one[name], rel=1e-4, abs=1e-6), name
        every = list(store)
        batches = [
            {step.frame for group in members for number in group for step in every[number].steps}
            for members in SCHEDULE
        ]
        whole = sum(len(store.frame(name)) for batch in batches for name in batch)
        most = sum(len(batch) for batch in batches) * OVERHEAD
    weights = load_file(tmp_path / "weights.safetensors")
    assert furthest(dict(alone.weights()), weights) <= 1e-5

    assert found["pictures told"] == 0  # nothing to all: each gets its own
    sent = {rank: sum(sizes) for rank, sizes in found["sent"].items()}
    assert sent.keys() == {str(rank) for rank in range(1, world)}
    assert all(0 < size < 0.9 * whole + most for size in sent.values())
    # Siblings begin on one screen, which more than one process may need; before, every process got all.
    assert sum(sent.values()) < 0.9 * (world - 1) * whole
