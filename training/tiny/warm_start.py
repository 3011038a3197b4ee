"""`guiagent train --recipe tiny-sft`: demonstrations from real pages, then supervised training on them.

Demonstrations are committed to a store under their index, so that collecting goes on where it was; fitting
starts anew.
"""

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn

from guiagent.client import FarmClient
from guiagent.dialects.ui_tars import UiTars
from guiagent.episode import run_episode
from guiagent.errors import Fault, FaultError
from guiagent.trajectories import TrajectoryStore
from guiagent.types import ObserveSpec, Trajectory
from rewards.tasksets.miniwob import GROUNDING_TASKS, TRAIN_TASKS, MiniWob
from training.batch import Sample, collate, sampled_logprobs
from training.config import WarmStartConfig
from training.encode import Encoder, Picture
from training.pretrained import open_model
from training.tiny import demos, model

_CHUNK = 500  # demonstrations, sorted by page: loading a page costs more than setting one up again
_SPEC = ObserveSpec(frame="png")
_MAX_GRAD_NORM = 1.0
_WARM_UP_SHARE = 0.1
_REPORT_S = 5.0


@dataclass(frozen=True)
class Progress:
    stage: str  # "demonstrate" or "fit"
    done: int
    total: int
    loss: float = float("nan")


OnProgress = Callable[[Progress], None]
Planned = tuple[int, demos.Demo]


async def collect(
    farm: FarmClient, store: TrajectoryStore, config: WarmStartConfig, on_progress: OnProgress
) -> None:
    """Commit `config.demonstrations` demonstrations; those that are there already are not made again.

    Raises FaultError when going through all that are missing brings none.
    """
    plan = list(enumerate(demos.plan(config.demonstrations, config.seed, TRAIN_TASKS, GROUNDING_TASKS)))
    while missing := [(index, demo) for index, demo in plan if _id(index) not in store]:
        before = len(store)
        fault = await _collect(missing, farm, store, config, on_progress)
        if fault is not None and len(store) == before:
            raise FaultError(fault)


async def _collect(
    missing: Sequence[Planned],
    farm: FarmClient,
    store: TrajectoryStore,
    config: WarmStartConfig,
    on_progress: OnProgress,
) -> Fault | None:
    """Try each once; returns one of the faults that cost a demonstration."""
    chunks = iter([missing[start : start + _CHUNK] for start in range(0, len(missing), _CHUNK)])
    taskset = MiniWob(oracle=True)
    fault: Fault | None = None

    async def slot(number: int) -> None:
        nonlocal fault
        for chunk in chunks:
            finished: list[Trajectory] = []
            async with farm.lease("browser", grants=("exec",), label=f"demonstrations {number}") as device:
                for index, demo in sorted(chunk, key=lambda planned: planned[1].task):
                    trajectory = await run_episode(
                        demos.make_task(demo, taskset),
                        device,
                        demos.Demonstrator(UiTars(model.FACTOR), seed=config.seed * 10**9 + index),
                        keep_frame=store.put_frame,
                        spec=_SPEC,
                        id=_id(index),
                    )
                    if trajectory.fault is None:
                        finished.append(trajectory)
                    else:
                        fault = trajectory.fault
                        if fault.origin in ("device", "farm"):
                            break  # the rest of the chunk is for another device
            await asyncio.to_thread(store.commit, finished)
            on_progress(Progress("demonstrate", len(store), config.demonstrations))

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(config.devices):
                group.create_task(slot(number))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return fault


def fit(demonstrations: Path, output: Path, config: WarmStartConfig, on_progress: OnProgress) -> None:
    """Train the small policy on the store at `demonstrations`; the checkpoint is written to `output`.

    This process is the first of `config.processes`, with one thread each.
    """
    with TrajectoryStore(demonstrations, readonly=True) as store:
        tokenizer = model.make_tokenizer(sorted({trajectory.instruction for trajectory in store}))
    torch.manual_seed(config.seed)
    model.save(model.make_model(tokenizer), model.make_processor(tokenizer), output)
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = f"file://{folder}/rendezvous"
        others = spawn(
            _fit_beside,
            (demonstrations, output, config, rendezvous),
            config.processes - 1,
            join=False,
            daemon=True,
        )
        _fit(0, demonstrations, output, config, rendezvous, on_progress)
        while not others.join():
            pass


def _fit_beside(
    index: int, demonstrations: Path, output: Path, config: WarmStartConfig, rendezvous: str
) -> None:
    _fit(index + 1, demonstrations, output, config, rendezvous, lambda _: None)


def _fit(
    rank: int,
    demonstrations: Path,
    output: Path,
    config: WarmStartConfig,
    rendezvous: str,
    on_progress: OnProgress,
) -> None:
    """One data-parallel process: gradients are averaged over all of them after each backward pass."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=rendezvous, rank=rank, world_size=config.processes
    )
    encoder, network = Encoder(output), open_model(output).train()
    parameters = list(network.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, total_steps=config.steps, pct_start=_WARM_UP_SHARE
    )
    with TrajectoryStore(demonstrations, readonly=True) as store:
        batches = _batches(list(store), store, encoder, config.batch // config.processes, config.seed + rank)
        reported, losses = time.monotonic(), []
        for step, samples in enumerate(itertools.islice(batches, config.steps), start=1):
            batch = collate(samples, encoder, model.MERGE)
            logits = network(**batch.inputs).logits
            logprobs, _ = sampled_logprobs(logits, batch, encoder.unsampled)
            loss = -logprobs[batch.sampled].mean()
            optimizer.zero_grad()
            loss.backward()
            _average_gradients(parameters, config.processes)
            torch.nn.utils.clip_grad_norm_(parameters, _MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
            if rank == 0 and (time.monotonic() - reported > _REPORT_S or step == config.steps):
                on_progress(Progress("fit", step, config.steps, sum(losses) / len(losses)))
                reported, losses = time.monotonic(), []
    if rank == 0:
        model.save(network, encoder.processor, output)
    torch.distributed.destroy_process_group()


def _average_gradients(parameters: Sequence[torch.nn.Parameter], processes: int) -> None:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    torch.distributed.all_reduce(flat)
    flat /= processes
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _batches(
    trajectories: Sequence[Trajectory], store: TrajectoryStore, encoder: Encoder, size: int, seed: int
) -> Iterator[list[Sample]]:
    rng = random.Random(seed)
    while True:
        yield [_sample(rng.choice(trajectories), store, encoder) for _ in range(size)]


def _sample(trajectory: Trajectory, store: TrajectoryStore, encoder: Encoder) -> Sample:
    """A demonstration as the sequence the policy would have seen and emitted."""
    ids: list[int] = []
    sampled: list[bool] = []
    pictures: list[Picture] = []
    for step in trajectory.steps:
        picture = encoder.picture(store.frame(step.frame))
        if pictures:
            prompt = encoder.next_prompt(picture, ended=True)
        else:
            prompt = encoder.first_prompt(trajectory.instruction, picture)
        completion = encoder.completion(step.policy.text)
        ids += [*prompt, *completion]
        sampled += [False] * len(prompt) + [True] * len(completion)
        pictures.append(picture)
    return Sample(ids, sampled, [0.0] * len(ids), pictures)


def _id(index: int) -> str:
    return f"demo-{index:06d}"
