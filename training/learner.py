"""The learner: closed groups in, one optimiser step out. Knows tensors and tokens, no devices."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from guiagent.types import Trajectory
from training.algorithms.legacy import Algorithm
from training.batch import Sample, collate, sampled_logprobs
from training.config import UpdateConfig
from training.encode import Encoder
from training.losses.legacy import LossInputs, LossMetrics, policy_loss
from training.pretrained import open_model
from training.replay import Group

_MAX_SKIPPED = 5


class Update(NamedTuple):
    """What one step did: metrics by name, and whether the weights changed."""

    metrics: dict[str, float]
    stepped: bool


class Learner:
    """A model and its AdamW. `step` skips a non-finite gradient; five in a row raise FloatingPointError."""

    def __init__(
        self, checkpoint: Path, encoder: Encoder, algorithm: Algorithm, config: UpdateConfig
    ) -> None:
        self.model = open_model(checkpoint).train()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self._encoder = encoder
        self._algorithm = algorithm
        self._config = config
        self._merge: int = self.model.config.vision_config.spatial_merge_size
        self._skipped = 0

    def step(self, groups: Sequence[Group], frame: Callable[[str], bytes]) -> Update:
        """One policy-gradient step on whole groups; `frame` gives a stored screenshot's bytes by its hash.

        A trajectory is one sequence of all its turns. Those whose advantage is exactly 0 add nothing to the
        gradient and are left out of the forward pass, but they count in the loss's denominators.
        """
        members = [
            member
            for group in groups
            for member in zip(group.members, self._algorithm.advantages(group.members), strict=True)
        ]
        counted = [trajectory for trajectory, _ in members if self._algorithm.reward(trajectory) is not None]
        tokens = sum(len(step.policy.completion_ids) for t in counted for step in t.steps)
        learned = [(trajectory, advantage) for trajectory, advantage in members if advantage != 0.0]
        learned.sort(key=lambda member: _length(member[0]))  # so that little of a micro-batch is padding

        self.optimizer.zero_grad()
        total, metrics = 0.0, LossMetrics()
        for start in range(0, len(learned), self._config.micro_batch):
            part = learned[start : start + self._config.micro_batch]
            batch = collate([to_sample(t, self._encoder, frame) for t, _ in part], self._encoder, self._merge)
            logits = self.model(**batch.inputs).logits
            logprobs, entropy = sampled_logprobs(logits, batch, self._encoder.unsampled)
            outputs = policy_loss(
                LossInputs(
                    logprobs=logprobs,
                    behaviour_logprobs=batch.logprobs,
                    advantages=torch.tensor([advantage for _, advantage in part]),
                    mask=batch.sampled,
                    total_tokens=tokens,
                    total_trajectories=len(counted),
                    entropy=entropy,
                ),
                self._algorithm.loss,
            )
            outputs.loss.backward()
            total += float(outputs.loss.detach())
            metrics = metrics + outputs.metrics
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._config.max_grad_norm))
        finite = math.isfinite(norm) and math.isfinite(total)
        stepped = bool(learned) and finite
        if stepped:
            self.optimizer.step()
        self._count_skipped(not finite)
        figures = {"loss": total, "grad_norm": norm, "trained": float(len(learned)), **metrics.summary()}
        return Update(figures, stepped)

    def save(self, directory: Path) -> None:
        """Write an ordinary Hugging Face folder: model, tokenizer and image processor."""
        self.model.save_pretrained(directory)
        self._encoder.processor.save_pretrained(directory)

    def weights(self) -> dict[str, torch.Tensor]:
        """The model's tensors, for the engine to copy."""
        return {name: tensor.detach() for name, tensor in self.model.state_dict().items()}

    def _count_skipped(self, skipped: bool) -> None:
        self._skipped = self._skipped + 1 if skipped else 0
        if self._skipped >= _MAX_SKIPPED:
            raise FloatingPointError(
                f"{_MAX_SKIPPED} steps in a row had a non-finite loss or gradient; lower update.learning_rate"
            )


def to_sample(trajectory: Trajectory, encoder: Encoder, frame: Callable[[str], bytes]) -> Sample:
    """The trajectory's tokens exactly as they were prompted and sampled, and its pictures."""
    ids: list[int] = []
    sampled: list[bool] = []
    logprobs: list[float] = []
    for step in trajectory.steps:
        prompt, completion = step.policy.prompt_ids, step.policy.completion_ids
        ids += [*prompt, *completion]
        sampled += [False] * len(prompt) + [True] * len(completion)
        logprobs += [0.0] * len(prompt) + step.policy.logprobs
    pictures = [encoder.picture(frame(step.frame)) for step in trajectory.steps]
    return Sample(ids, sampled, logprobs, pictures)


def _length(trajectory: Trajectory) -> int:
    return sum(len(step.policy.prompt_ids) + len(step.policy.completion_ids) for step in trajectory.steps)
