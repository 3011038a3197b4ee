"""`guiagent train --recipe sft-successes`: supervised fine-tuning of a policy on the trajectories of a store.

Each time a trajectory is learned from, the number of screenshots that its history shows is drawn anew, and it
is prompted as a rollout under that history would be: HiconAgent's dynamic context sampling (arXiv
2512.01763), so that the policy is used to much history and to little.

Deviations: the paper draws lengths in the rollouts of RL, with a bias that changes in the course of training;
here they are drawn for demonstrations, each of the lengths listed as often. Its other half is left out, the
anchor-guided compression: a second branch without the older screenshots, held to the first by an alignment
loss.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import torch
from msgspec.structs import replace

from guiagent.errors import DivergedError, UsageError
from guiagent.trajectories import TrajectoryStore
from guiagent.types import PolicyStep, Step, Trajectory
from training import optimizers
from training.config import HistoryConfig, SftConfig, checkpoint_folder
from training.contexts import Context, contexts
from training.encode import Encoder
from training.history import addition
from training.network import Network
from training.packing import bins, stored_tokens, tree
from training.parallel import clip_gradients
from training.ranks import Alone

_WARM_UP_SHARE = 0.1


class Progress(NamedTuple):
    step: int
    steps: int
    loss: float  # of this step: nats a token


def fine_tune(config: SftConfig, output: Path, on_progress: Callable[[Progress], None]) -> None:
    """Write the fine-tuned checkpoint to `output`. One process; a run that was cut begins anew.

    The loss is the cross-entropy of the replies, a mean over the tokens of an optimiser step; the learning
    rate goes up and down once. A reply that holds no valid action is shown and not learned.

    Raises:
        UsageError: there is no store, or nothing in it to learn from.
        InfrastructureError: there is no checkpoint, or something is damaged.
        DivergedError: the loss is no number.
    """
    start = checkpoint_folder(config.policy)
    encoder = Encoder(start, config.dialect, config.max_pixels)
    with TrajectoryStore(config.store, readonly=True) as store:
        teaching = [i for i, trajectory in enumerate(store) if _teaches(trajectory, config.successes_only)]
        if not teaching:
            kind = "successful episode" if config.successes_only else "episode"
            raise UsageError(f"there is no {kind} with replies in {config.store} to learn from")
        tutor = _Tutor(config, start, encoder, store.frame)
        rng = random.Random(config.seed)
        for step, places in enumerate(islice(_batches(teaching, config.batch, rng), config.steps), start=1):
            examples = []
            for place in places:
                history = HistoryConfig(kind=config.history, images=rng.choice(config.images))
                examples.append(demonstration(next(store.read(place)), history, encoder, store.frame))
            on_progress(Progress(step, config.steps, tutor.learn(examples)))
        tutor.network.save(output)


def demonstration(
    trajectory: Trajectory, history: HistoryConfig, encoder: Encoder, frame: Callable[[str], bytes]
) -> list[Context]:
    """The contexts in which a policy would have said what was said, had its history been `history`.

    The texts are encoded with its own tokenizer, whoever said them; every reply ends. `frame` gives a stored
    screenshot's bytes by its hash.
    """
    outputs: list[PolicyStep] = []
    frames: list[bytes] = []
    for step in trajectory.steps:
        frames.append(frame(step.frame))
        added = addition(encoder, history, trajectory.instruction, outputs, frames)
        ids = encoder.completion(step.policy.text)
        output = PolicyStep(step.policy.text, completion_ids=ids, logprobs=[0.0] * len(ids))
        outputs.append(replace(output, **added._asdict()))
    steps = [replace(step, policy=out) for step, out in zip(trajectory.steps, outputs, strict=True)]
    learned = [_is_reply(step) for step in trajectory.steps]
    return [
        context._replace(
            sampled=[own and learned[turn] for own, turn in zip(context.sampled, context.turns, strict=True)]
        )
        for context in contexts(replace(trajectory, steps=steps))
    ]


class _Tutor:
    """A network and its optimiser."""

    def __init__(
        self, config: SftConfig, start: Path, encoder: Encoder, frame: Callable[[str], bytes]
    ) -> None:
        update = config.update
        self.network = Network(
            start,
            encoder,
            update,
            Alone(),
            start=start,
            reference=False,
            temperature=1.0,
            device=torch.device("cuda" if torch.cuda.is_available() else "cpu"),
            shard=None,
        )
        self._parameters = [one for one in self.network.model.parameters() if one.requires_grad]
        self._optimizer = optimizers.make(
            update.optimizer, self._parameters, update.learning_rate, update.weight_decay
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, update.learning_rate, total_steps=config.steps, pct_start=_WARM_UP_SHARE
        )
        self._update, self._image_token, self._frame = update, encoder.image_token, frame

    def learn(self, examples: Sequence[list[Context]]) -> float:
        """One optimiser step; returns its loss before it."""
        trees = [tree(example, self._image_token) for example in examples]
        tokens = sum(sum(branch.context.sampled) for branches in trees for branch in branches)
        loss = 0.0
        self._optimizer.zero_grad()
        for group in bins([stored_tokens(branches) for branches in trees], self._update.batch_tokens):
            pack = self.network.pack([trees[i] for i in group], self._frame)
            part = -self.network.score(pack).logprobs.sum() / tokens
            part.backward()
            loss += float(part.detach())
        if not math.isfinite(loss):
            raise DivergedError(f"the loss is {loss}; lower update.learning_rate")
        clip_gradients(self._parameters, self._update.max_grad_norm)
        self._optimizer.step()
        self._schedule.step()
        return loss


def _batches(places: Sequence[int], size: int, rng: random.Random) -> Iterator[list[int]]:
    """For ever, each place once before any comes again, in an order drawn anew each time."""
    drawn = (place for _ in count() for place in rng.sample(places, len(places)))
    while True:
        yield list(islice(drawn, size))


def _teaches(trajectory: Trajectory, successes_only: bool) -> bool:
    wanted = trajectory.success if successes_only else trajectory.valid
    return wanted and any(_is_reply(step) for step in trajectory.steps)


def _is_reply(step: Step) -> bool:
    return step.policy.text != "" and step.policy.error is None
