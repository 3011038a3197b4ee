"""The learner and the engine on a pretended GPU, and on the CPU: `python -m tests.support.on_pretended_gpu
FOLDER`.

A process of its own, because a device that is not there stays for as long as it lives. Prints JSON: for each
case what was found on the "cpu" and on the "gpu", and where the host "waits" for the device.
"""

import asyncio
import dataclasses
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tests.bench.packed import checkpoint, frames, trajectory
from tests.support.pretended_gpu import Gpu, pretended, register
from training.algorithms import find_algorithm
from training.algorithms.algorithm import Algorithm
from training.config import UpdateConfig
from training.engine.engine import Request
from training.engine.local import LocalEngine
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.learner.learner import Learner
from training.model.network import Placement
from training.model.pretrained import open_model
from training.replay import Group

TURNS, WINDOW, STEPS = 2, 1, 2
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "adapters and a reference": ("zerogui", {"lora": {"rank": 4, "alpha": 8}}),
    "earlier log-probabilities and a reference": ("dart_paper", {}),
    "a critic": ("st_ppo", {}),
    "a frozen vision tower": ("arpo", {"freeze_vision": True}),
}


def learned(folder: Path, encoder: Encoder, case: str, device: torch.device) -> list[list[float]]:
    """Loss and gradient norm of every update."""
    named, settings = CASES[case]
    made = [(frames(TURNS, seed), seed) for seed in (0, 1)]
    members = tuple(trajectory(encoder, screens, TURNS, WINDOW, seed) for screens, seed in made)
    screens = made[0][0] | made[1][0]
    algorithm: Algorithm = find_algorithm(named)
    credit = [[1.0] * TURNS, [-1.0] * TURNS]
    algorithm = dataclasses.replace(algorithm, credit=lambda lessons: credit[: len(lessons)])
    update = UpdateConfig.model_validate({"learning_rate": 1e-3, **settings})
    learner = Learner(folder, encoder, algorithm, update, placement=Placement(device))
    group = Group("g", "task", 0, members, members, staleness=0)
    found = [learner.step([group], screens.__getitem__).metrics for _ in range(STEPS)]
    learner.weights()
    return [[metrics["loss"], metrics["grad_norm"]] for metrics in found]


def sampled(folder: Path, encoder: Encoder, device: torch.device, gpu: Gpu | None) -> list[list[int]]:
    """Greedy replies in two turns of three conversations that join one after another, twice, and new weights
    between.

    The engine's thread is on the device as this one is.
    """
    model = open_model(folder)
    torch.manual_seed(0)
    for weight in model.parameters():  # as large as lets replies depend on what is shown
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=(weight.numel() / len(weight)) ** -0.5)
    torch.nn.Module.to(model, device)
    work = LocalEngine._work

    def on_device(engine: LocalEngine) -> None:
        if gpu is None:
            return work(engine)
        with gpu.here():
            return work(engine)

    with ExitStack() as patched:
        patched.enter_context(mock.patch.object(LocalEngine, "_work", on_device))
        if gpu is not None:
            patched.enter_context(mock.patch("torch.Generator", _generator))
        engine = LocalEngine(model, encoder, Sampling(temperature=0, max_new_tokens=4), max_batch=2)
        said = asyncio.run(_talk(engine, encoder))
        engine.load_weights({name: x.clone() for name, x in model.state_dict().items()}, 1)
        said += asyncio.run(_talk(engine, encoder))
        engine.close()
        engine = LocalEngine(model, encoder, Sampling(temperature=1.0, max_new_tokens=4))
        asyncio.run(_talk(engine, encoder))  # drawn, not compared
        engine.close()
    return said


async def _talk(engine: LocalEngine, encoder: Encoder) -> list[list[int]]:
    screens = [list(frames(2, seed).values()) for seed in range(3)]
    pictures = [[encoder.picture(frame) for frame in two] for two in screens]
    asked = [encoder.first_prompt("w10 w11", one) for one, _ in pictures]
    first = await asyncio.gather(
        *(engine.generate(Request(f"e{n}", ids, screens[n][:1])) for n, ids in enumerate(asked))
    )
    asked = [
        ids + said.ids + encoder.next_prompt(two, ended=False)
        for ids, said, (_, two) in zip(asked, first, pictures, strict=True)
    ]
    last = await asyncio.gather(
        *(engine.generate(Request(f"e{n}", ids, screens[n])) for n, ids in enumerate(asked))
    )
    return [one.ids for one in (*first, *last)]


def _generator(device: torch.device) -> torch.Generator:
    """There are none of a device that is not there."""
    return torch.default_generator.clone_state()


def main() -> None:
    torch.set_num_threads(1)
    register()
    folder = checkpoint(Path(sys.argv[1]))
    encoder = Encoder(folder)
    encoder.unsampled = sorted({*encoder.unsampled, encoder.eos})
    cpu = torch.device("cpu")
    found: dict[str, dict[str, Any]] = {}
    for case in CASES:
        found[case] = {"cpu": learned(folder, encoder, case, cpu)}
        with pretended() as gpu:
            found[case] |= {"gpu": learned(folder, encoder, case, gpu.device), "waits": gpu.waits}
    found["engine"] = {"cpu": sampled(folder, encoder, cpu, None)}
    with pretended() as gpu:
        found["engine"] |= {"gpu": sampled(folder, encoder, gpu.device, gpu), "waits": gpu.waits}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
