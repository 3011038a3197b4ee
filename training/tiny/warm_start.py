"""Warm-start the small policy (`guiagent train --recipe tiny-sft`): collect demonstrations, then fit to them.

Demonstrations are committed to a store under their index: an interrupted collection is continued, and so is
an interrupted fit.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PreTrainedModel

from guiagent.client import FarmClient
from guiagent.dialects.ui_tars import UiTars
from guiagent.episode import run_episode
from guiagent.protocols import Device
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import ObserveSpec, Trajectory
from rewards.tasksets.miniwob import GROUNDING_TASKS, TRAIN_TASKS, MiniWob
from training.config import WarmStartConfig
from training.inputs.contexts import Context
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, pack
from training.inputs.pictures import Picture
from training.model.forward import score
from training.tiny import collecting, demos, model, supervised
from training.tiny.collecting import Job, KeepFrame, OnProgress, Progress

EPISODES = "demonstrations"  # folder of the episodes in a run's folder

_SPEC = ObserveSpec(frame="png")


async def collect(
    farm: FarmClient, store: TrajectoryStore, config: WarmStartConfig, on_progress: OnProgress
) -> None:
    """Commit `config.demonstrations` demonstrations; those already in the store are not made again.

    Raises FaultError if a pass over all missing ones commits none.
    """
    taskset = MiniWob(oracle=True)

    async def play(index: int, demo: demos.Demo, device: Device, keep_frame: KeepFrame) -> Trajectory:
        demonstrator = demos.Demonstrator(UiTars(model.FACTOR), seed=config.seed * 10**9 + index)
        task = demos.make_task(demo, taskset)
        return await run_episode(task, device, demonstrator, keep_frame=keep_frame, spec=_SPEC, id=_id(index))

    plan = demos.plan(config.demonstrations, config.seed, TRAIN_TASKS, GROUNDING_TASKS)
    jobs = [Job(_id(index), demo.task, partial(play, index, demo)) for index, demo in enumerate(plan)]
    await collecting.collect(
        farm,
        store,
        jobs,
        config.devices,
        lambda done: on_progress(Progress(done, config.demonstrations)),
    )


def fit(run: Path, config: WarmStartConfig, on_progress: OnProgress) -> Path:
    """Train the small policy on the demonstrations in `run`; return the checkpoint's folder.

    Raises what `supervised.fit` raises.
    """
    demonstrations = run / EPISODES
    with TrajectoryStore(demonstrations, readonly=True) as store:
        tokenizer = model.make_tokenizer(sorted({trajectory.instruction for trajectory in store}))
    torch.manual_seed(config.seed)
    with TemporaryDirectory() as untrained:
        start = Path(untrained)
        model.save(model.make_model(tokenizer), model.make_processor(tokenizer), start)
        fitted = supervised.fit(
            partial(_losses, demonstrations),
            start,
            run / "checkpoints",
            config,
            lambda step, loss: on_progress(Progress(step, config.steps, loss)),
        )
    with supervised.made_of(fitted, run / "policy"):
        return run / "policy"


def _losses(
    demonstrations: Path,
    network: PreTrainedModel,
    encoder: Encoder,
    size: int,
    generators: Iterator[random.Random],
) -> Iterator[torch.Tensor]:
    """Yield the cross-entropy of the completions' tokens, batch by batch."""
    with TrajectoryStore(demonstrations, readonly=True) as store:
        trajectories: Sequence[Trajectory] = list(store)

        def screenshot(name: str) -> Picture:
            return encoder.picture(store.frame(name))

        for rng in generators:
            contexts = [_context(rng.choice(trajectories), screenshot, encoder) for _ in range(size)]
            shown = pack([[Branch(one)] for one in contexts], screenshot, encoder.image_token, model.MERGE)
            yield -score(network, shown, encoder.unsampled).logprobs.mean()


def _context(trajectory: Trajectory, screenshot: Callable[[str], Picture], encoder: Encoder) -> Context:
    """A demonstration as the sequence the policy would have seen and emitted."""
    context = Context([], [], [], [], [])
    for turn, step in enumerate(trajectory.steps):
        picture = screenshot(step.frame)
        if context.ids:
            prompt = encoder.next_prompt(picture, ended=True)
        else:
            prompt = encoder.first_prompt(trajectory.instruction, picture)
        completion = encoder.completion(step.policy.text)
        context.ids.extend([*prompt, *completion])
        context.sampled.extend([False] * len(prompt) + [True] * len(completion))
        context.logprobs.extend([0.0] * (len(prompt) + len(completion)))
        context.turns.extend([turn] * (len(prompt) + len(completion)))
        context.frames.append(step.frame)
    return context


def _id(index: int) -> str:
    return f"demo-{index:06d}"
