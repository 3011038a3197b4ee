"""A learner in several processes: the loss and the weights of one, from and to the same checkpoints."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from guiagent.storage.trajectories import TrajectoryStore
from tests.drills.replayed import sample
from tests.support.ranks import ADAPTERS, LABELLED, config_of, furthest, go_on, learn
from tests.support.shards import whole_shards
from training.algorithms import find_algorithm
from training.checkpoints import checkpoint as checkpoints
from training.distributed.parallel import shares
from training.inputs.encoder import Encoder
from training.launch.torchrun import _failure
from training.learner.learner import Learner
from training.model.pretrained import open_model

# The second has a KL term, and all else that needs forward passes before; the third learns from labels that
# only rank 0 knows; the last trains adapters only.
ALGORITHMS = ("arpo", "dart_paper", "seagent", f"arpo{ADAPTERS}")


class Runs(NamedTuple):
    folder: Path
    alone: dict[str, list[dict[str, float]]]  # of each algorithm: the metrics of its steps in one process
    together: dict[str, Any]  # in two, and what the survivor of them said


@pytest.fixture(scope="module")
def runs(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The same steps in one process and in two, all of them at once."""
    folder = tmp_path_factory.mktemp("ranks")
    sample(checkpoint, folder / "source", 2)
    half = folder / "half"  # as checkpoints are published; only what learns becomes float32
    shutil.copytree(checkpoint, half)
    open_model(checkpoint).bfloat16().save_pretrained(half)
    alone: dict[str, list[dict[str, float]]] = {}
    with TrajectoryStore(folder / "source", readonly=True) as store:
        for name in ALGORITHMS:
            update = config_of(name).update
            named = find_algorithm(update.algorithm)
            learner = Learner(half, Encoder(half), named, update, LABELLED)
            alone[name] = learn(learner, store, folder / "alone" / name, lone=name == "dart_paper")
        work = {"algorithms": ALGORITHMS, "checkpoint": str(half)}
        (folder / "work.json").write_text(json.dumps(work))
        codes = run_ranks(folder, 2)
        for name in ALGORITHMS:
            alone[name].append(
                go_on(Learner, half, name, store, folder / "together" / name, folder / "came back" / name)
            )
    assert codes == [0, -9]  # rank 1 kills itself at the end
    return Runs(folder, alone, json.loads((folder / "found.json").read_text()))


def run_ranks(folder: Path, world: int) -> list[int]:
    """The exit codes of the processes of `tests.support.ranks`."""
    environment = os.environ | {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "tests.support.ranks", str(folder)]
    processes = [
        subprocess.Popen(command, env=environment | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    codes = [process.returncode for process in processes]
    assert 0 in codes, errors
    return codes


def tensors(root: Path) -> dict[str, torch.Tensor]:
    """The weights and the optimiser's state of a checkpoint."""
    loaded = checkpoints.load(root)
    assert loaded is not None
    return load_file(loaded.model / "model.safetensors") | whole_shards(loaded.path)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_processes_learn_what_one_does(runs: Runs, algorithm: str) -> None:
    alone, together = runs.alone[algorithm], runs.together[algorithm]
    assert len(alone) == len(together)
    for one, two in zip(alone, together, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-5, abs=1e-6)
        assert two["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)
        assert one["grad_norm"] > 0
        assert two["entropy"] == pytest.approx(one["entropy"], rel=1e-5)
    before = tensors(runs.folder / "alone" / algorithm)
    assert furthest(before, tensors(runs.folder / "together" / algorithm)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_checkpoint_of_two_goes_on_in_one_and_the_other_way_round(runs: Runs, algorithm: str) -> None:
    one, two = tensors(runs.folder / "came back" / algorithm), tensors(runs.folder / "went on" / algorithm)
    assert furthest(one, two) <= 1e-5
    assert furthest(one, tensors(runs.folder / "alone" / algorithm)) > 5e-5  # it did go on


@pytest.mark.slow
def test_whoever_is_left_says_so_in_one_line(runs: Runs) -> None:
    assert "another process of this run was lost" in runs.together["lost"]
    assert "\n" not in runs.together["lost"]


def test_shares_are_even_complete_and_the_same_everywhere() -> None:
    costs = [float(5 + (7 * n) % 23) for n in range(40)]
    for parts in (1, 2, 3, 7):
        taken = shares(costs, parts)
        assert sorted(item for items in taken for item in items) == list(range(40))
        loads = [sum(costs[item] for item in items) for items in taken]
        assert max(loads) - min(loads) <= max(costs)
    assert shares([3.0, 3.0, 3.0], 2) == [[0, 2], [1]]
    assert shares([1.0], 3) == [[0], [], []]


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ({1: -9, 0: -15}, "process 1 of 2 was ended by SIGKILL"),
        ({0: 75, 1: -9}, "process 1 of 2 was ended by SIGKILL"),
        ({0: 1}, "process 0 of 2 ended with exit code 1"),
        ({0: 75, 1: 75}, "process 0 of 2 ended with exit code 75"),
    ],
)
def test_the_launcher_names_who_died_first(codes: dict[int, int], says: str) -> None:
    assert str(_failure(codes, 2)).startswith(says)


def test_the_launcher_adds_nothing_to_what_a_process_said_itself() -> None:
    told = _failure({1: 75, 0: 3}, 2)
    assert isinstance(told, SystemExit)
    assert told.code == 3
