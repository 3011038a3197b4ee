"""Training samples: trajectories with their signals and advantages, and which of them have a gradient."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from guiagent.types import Trajectory
from rewards.judges.step import Label
from training.advantages import label_advantages, step_mask
from training.algorithms.algorithm import AdvantageInput, Algorithm, Kto, Objective
from training.algorithms.reward import outcome
from training.inputs.contexts import contexts
from training.inputs.packing import Branch, stored_tokens, tree
from training.losses.aggregation import Totals
from training.replay import Group


@dataclass
class TrainingSample:
    """A member of a group. A masked one has the `reward` None and no `branches`, and is never computed.

    `proximal`, `reference` and `present` are [sampled tokens]; None unless this process computed them.
    """

    trajectory: Trajectory
    replayed: bool
    reward: float | None
    branches: list[Branch]
    mine: bool = True  # this process computes it
    advantages: list[float] = field(default_factory=list)  # of each step
    kept: list[bool] = field(default_factory=list)  # steps that the objective's mask leaves in
    proximal: Tensor | None = None
    reference: Tensor | None = None
    present: Tensor | None = None  # before the optimiser step in progress; of one that takes several passes
    states: Tensor | None = None  # [steps, hidden size], what the critic reads
    entropies: tuple[float, ...] | None = None
    values: tuple[float, ...] | None = None
    task_value: float | None = None
    labels: tuple[Label | None, ...] | None = None
    progress: tuple[float, ...] | None = None
    answers: tuple[float, ...] | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The number of sampled tokens of each step, over all of its calls."""
        steps = self.trajectory.steps
        return tuple(sum(len(call.completion_ids) for call in step.policy.sampled) for step in steps)

    @property
    def steps(self) -> Tensor:
        """[sampled tokens]: the index of the step that each belongs to."""
        counts = torch.tensor(self.tokens)
        return torch.arange(len(counts)).repeat_interleave(counts)

    @property
    def behaviour(self) -> Tensor:
        """[sampled tokens]: their log-probabilities as the engine reported them."""
        sampled = (call.logprobs for step in self.trajectory.steps for call in step.policy.sampled)
        return torch.tensor([logprob for logprobs in sampled for logprob in logprobs])

    @property
    def cost(self) -> int:
        return stored_tokens(self.branches)

    @property
    def desirable(self) -> list[float]:
        """For each step +1 if it is labelled correct, -1 if wrong, 0 without a label."""
        return label_advantages(self.labels) if self.labels is not None else [0.0] * len(self.kept)

    def member(self) -> AdvantageInput:
        return AdvantageInput(
            reward=self.reward,
            outcome=outcome(self.trajectory),
            frames=tuple(step.frame for step in self.trajectory.steps),
            tokens=self.tokens,
            replayed=self.replayed,
            entropies=self.entropies,
            values=self.values,
            task_value=self.task_value,
            labels=self.labels,
            progress=self.progress,
            answers=self.answers,
        )

    def has_gradient(self, objective: Objective) -> bool:
        """Whether any of its tokens can have a gradient; if not, the forward pass may leave it out."""
        if self.reward is None or not any(self.kept):
            return False
        return objective.kl is not None or objective.entropy is not None or self.teaches(objective)

    def teaches(self, objective: Objective) -> bool:
        """Whether its outcome or labels have a gradient: the terms of KL and entropy do not count."""
        if self.reward is None:
            return False
        labelled = isinstance(objective.surrogate, Kto) or objective.negatives is not None
        weighted = [a != 0.0 for a in self.advantages]
        if labelled:
            weighted = [a or d != 0.0 for a, d in zip(weighted, self.desirable, strict=True)]
        return any(a and kept for a, kept in zip(weighted, self.kept, strict=True))


def build_samples(group: Group, algorithm: Algorithm, image_token: int) -> list[TrainingSample]:
    """Make samples of a group's members. One without sampled tokens is masked, as one without a reward."""
    found: list[TrainingSample] = []
    for trajectory, replayed in zip(group.members, group.replayed, strict=True):
        reward = algorithm.reward(trajectory)
        branches: list[Branch] = []
        sampled = (call.completion_ids for step in trajectory.steps for call in step.policy.sampled)
        if reward is not None and any(sampled):
            branches = tree(contexts(trajectory), image_token)
        found.append(TrainingSample(trajectory, replayed, reward if branches else None, branches))
    return found


def assign_advantages(group: Sequence[TrainingSample], algorithm: Algorithm) -> None:
    """Set the advantages of a group's steps, and which steps the objective's mask keeps."""
    advantages = algorithm.credit([sample.member() for sample in group])
    for sample, steps in zip(group, advantages, strict=True):
        sample.advantages = steps
        sample.kept = [True] * len(steps)
    if algorithm.objective.step_mask is not None:
        counted = [sample for sample in group if sample.reward is not None]
        masks = step_mask([sample.entropies or () for sample in counted], algorithm.objective.step_mask)
        for sample, kept in zip(counted, masks, strict=True):
            sample.kept = kept


def minibatches(
    groups: Sequence[Group], samples: Sequence[list[TrainingSample]], count: int
) -> list[list[TrainingSample]]:
    """Divide whole groups into `count` parts, or into as many as there are groups.

    The trajectories drawn from a buffer are one group without `sampled`; they are dealt out one by one.
    """
    units: list[list[TrainingSample]] = []
    for group, members in zip(groups, samples, strict=True):
        units += [members] if group.sampled else [[sample] for sample in members]
    units = [unit for unit in units if unit]
    return [[sample for unit in units[i::count] for sample in unit] for i in range(min(count, len(units)))]


def loss_denominators(samples: Iterable[TrainingSample]) -> Totals:
    """Count the denominators of a step over all samples that are not masked, with or without a gradient."""
    sizes = [sample.tokens for sample in samples if sample.reward is not None]
    return Totals(
        tokens=sum(map(sum, sizes)),
        turns=sum(1 for steps in sizes for tokens in steps if tokens),
        trajectories=len(sizes),
    )
