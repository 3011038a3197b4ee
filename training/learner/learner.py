"""The learner: computes optimiser steps from closed groups. It knows tensors and tokens, but no devices.

    groups -> samples -> signals (earlier log-probabilities, values, labels) -> credit -> losses -> steps

Several processes are all given the same groups. Each computes its share of the forward and backward passes,
and as many passes as the others, because those of a sharded model are collective.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from guiagent.actions import Answer
from guiagent.errors import DivergedError, UsageError
from training.algorithms.algorithm import Algorithm
from training.algorithms.reward import outcome
from training.checkpoints.checkpoint import OptimizerState, optimizer_state
from training.config import UpdateConfig
from training.distributed.parallel import clip_gradients, shares
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, PackedBatch
from training.learner import optimizers
from training.learner.answer_probes import probes
from training.learner.microbatches import passes
from training.learner.samples import (
    TrainingSample,
    assign_advantages,
    build_samples,
    loss_denominators,
    minibatches,
)
from training.learner.signals import Signals, SignalSources, known_answer
from training.losses.aggregation import Totals, token_weights
from training.losses.history import History, no_history, remembered
from training.losses.metrics import added, over_ranks, summary
from training.losses.objective import no_sums, objective_loss
from training.losses.segments import firsts
from training.losses.tokens import Tokens
from training.model.critic import Critic, with_end
from training.model.network import Checkpoints, Network, Placement
from training.replay import Group

_MAX_SKIPPED = 5

Frames = Callable[[str], bytes]  # a stored screenshot by its hash


@dataclass(frozen=True)
class LearnerContext:
    """What a learner needs to know about its run."""

    start: Path | None = None  # the run's first checkpoint (the reference), if a later one is opened
    temperature: float = 1.0  # of the rollouts
    longest: int = 1  # the most tokens that can be sampled in a trajectory
    sources: SignalSources = field(default_factory=SignalSources)


_NO_RUN = LearnerContext()


class Update(NamedTuple):
    """The result of learning from a batch of groups: metrics by name, and whether the weights changed."""

    metrics: dict[str, float]
    stepped: bool


class _Step(NamedTuple):
    """The figures of an optimiser step, over all processes."""

    loss: float
    norm: float
    sums: dict[str, float]
    finite: bool
    packed_tokens: float
    flops: float


class Learner:
    """A model and its optimiser. With several ranks, the constructor and all public methods are collective.

    Raises:
        UsageError: the rollouts are greedy, so there is nothing to learn from.
        InfrastructureError: a checkpoint cannot be used, or the optimiser is not installed.
    """

    def __init__(
        self,
        checkpoint: Path,
        encoder: Encoder,
        algorithm: Algorithm,
        config: UpdateConfig,
        context: LearnerContext = _NO_RUN,
        placement: Placement | None = None,
    ) -> None:
        placement = placement or Placement()
        if context.temperature == 0:
            raise UsageError("rollout.temperature 0 always samples the same: nothing can be learned from it")
        self._network = Network(
            Checkpoints(checkpoint, context.start or checkpoint),
            encoder,
            config,
            placement,
            reference="reference" in algorithm.signals,
            temperature=context.temperature,
        )
        self.optimizer = optimizers.make(
            config.optimizer, self.model.parameters(), config.learning_rate, config.weight_decay
        )
        self._encoder, self._algorithm, self._config = encoder, algorithm, config
        self._ranks, self._longest = placement.ranks, context.longest
        self._signals = Signals(algorithm.signals, context.sources)
        device = self._network.device
        self._critic = (
            Critic(self._network.hidden_size, device=device) if "values" in algorithm.signals else None
        )
        self._history: History = no_history()
        self._skipped = 0  # optimiser steps in a row

    @property
    def model(self) -> PreTrainedModel:
        return self._network.model

    def step(self, groups: Sequence[Group], frame: Frames) -> Update:
        """Take `config.epochs` times `config.minibatches` optimiser steps on whole groups.

        With fewer groups than minibatches there is one step per group. Trajectories that cannot have a
        gradient are left out of the forward pass, but they count in the loss's denominators. A step whose
        loss or gradient is not finite is skipped and counted.

        Raises:
            DivergedError: five steps in a row were skipped.
        """
        began = time.perf_counter()
        samples = [build_samples(group, self._algorithm, self._encoder.image_token) for group in groups]
        counted = [sample for group in samples for sample in group if sample.reward is not None]
        self._shard(counted)
        self._find_signals(counted, frame)
        for group in samples:
            assign_advantages(group, self._algorithm)
        surprise = self._fit_critic(counted)
        parts = minibatches(groups, samples, self._config.minibatches)
        learned = [sample for sample in counted if sample.has_gradient(self._algorithm.objective)]
        if "proximal" not in self._algorithm.signals:  # "proximal" stays in the process that computed it
            self._shard(learned)
        self._find_reference(learned, frame)
        taken = [self._optimise(part, frame) for _ in range(self._config.epochs) for part in parts]
        figures = self._figures([one for one in taken if one is not None], time.perf_counter() - began)
        return Update(figures | surprise | {"trained": float(len(learned))}, figures["updates"] > 0)

    def save(self, directory: Path) -> None:
        """Write an ordinary Hugging Face folder: model, tokenizer, image processor; adapters beside them."""
        self._network.save(directory)

    def weights(self) -> dict[str, Tensor]:
        """Return the model's tensors by their checkpoint names, for the engine to copy. On rank 0."""
        return self._network.weights()

    def adapter(self) -> dict[str, Tensor]:
        """Return the adapters alone, for an engine that holds the other weights. On rank 0."""
        return self._network.adapter()

    def optimizer_state(self) -> OptimizerState:
        """Return the optimiser's state for a checkpoint, however many processes share it. On rank 0."""
        return optimizer_state(self.optimizer)

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs beside weights, optimiser and critic, as JSON."""
        return {"history": self._history}

    def critic_state(self) -> dict[str, Tensor]:
        """Return the critic's tensors; {} if the algorithm has no critic."""
        return {} if self._critic is None else self._critic.state()

    def restore(self, state: Mapping[str, Any], critic: dict[str, Tensor]) -> None:
        """Restore what `state` and `critic_state` returned."""
        history = state["history"]
        entropy = [(float(total), float(n)) for total, n in history["entropy"]]
        self._history = {"updates": int(history["updates"]), "kl": float(history["kl"]), "entropy": entropy}
        if self._critic is not None and critic:
            self._critic.restore(critic)

    # -- what is known before there is a loss ---------------------------------------------------------------

    def _find_signals(self, samples: Sequence[TrainingSample], frame: Frames) -> None:
        """Find all signals but "reference", which only samples with a gradient need."""
        named = self._algorithm.signals
        if named & {"proximal", "values"}:
            self._score_initial_policy(samples, frame)
        if "answers" in named:
            self._find_answers(samples, frame)
        for sample in samples:
            if "labels" in named:
                sample.labels = self._signals.labels(sample.trajectory)
            if "progress" in named:
                sample.progress = self._signals.progress(sample.trajectory, frame)

    @torch.no_grad()
    def _score_initial_policy(self, samples: Sequence[TrainingSample], frame: Frames) -> None:
        """Score every trajectory with the policy before the first update: "proximal" and "values"."""
        entropies: dict[int, Tensor] = {}
        states: dict[int, Tensor] = {}
        for part, one, live in self._passes(samples, [sample.branches for sample in samples], frame):
            scores = self._network.score(one, hidden=self._critic is not None)
            if not live:
                continue
            split = zip(scores.logprobs.split(one.sizes), scores.entropy.split(one.sizes), strict=True)
            for number, (sample, (logprobs, entropy)) in enumerate(zip(part, split, strict=True)):
                sample.proximal = logprobs
                steps = one.steps[one.trajectories == number]
                entropies[id(sample)] = _step_means(entropy, steps, len(sample.tokens))
                if scores.hidden is not None:
                    own = scores.hidden[one.trajectories[firsts(one.turns)] == number]
                    states[id(sample)] = own.new_zeros(len(sample.tokens), own.shape[1], dtype=torch.float32)
                    states[id(sample)][steps.unique()] = own.float()
        for sample, known in zip(samples, self._all_gather(samples, entropies, 1), strict=True):
            sample.entropies = tuple(known[:, 0].tolist())
        if self._critic is not None:
            size = self._network.hidden_size
            for sample, state in zip(samples, self._all_gather(samples, states, size), strict=True):
                sample.states = state
                sample.values = with_end(self._critic.values(state))
                sample.task_value = float(self._critic.task_values(state[:1]))

    def _fit_critic(self, samples: Sequence[TrainingSample]) -> dict[str, float]:
        if self._critic is None or not samples:
            return {}
        states = [sample.states for sample in samples if sample.states is not None]
        whole = torch.cat(states)
        ends = [outcome(sample.trajectory) or 0.0 for sample in samples for _ in sample.tokens]
        begins = [index == 0 for sample in samples for index in range(len(sample.tokens))]
        outcomes, first = (torch.tensor(flags, device=whole.device) for flags in (ends, begins))
        return {"critic_loss": self._critic.update(whole, outcomes, first)}

    @torch.no_grad()
    def _find_answers(self, samples: Sequence[TrainingSample], frame: Frames) -> None:
        known = {id(one): words for one in samples if (words := known_answer(one.trajectory)) is not None}
        asked = [sample for sample in samples if id(sample) in known]
        image = self._encoder.image_token
        trees = [probes(one.branches, self._spoken(known[id(one)], one), image) for one in asked]
        found: dict[int, Tensor] = {}
        for part, one, live in self._passes(asked, trees, frame):
            logprobs = self._network.score(one).logprobs
            for number, sample in enumerate(part):
                if live:
                    own = one.trajectories == number
                    found[id(sample)] = _step_means(logprobs[own], one.steps[own], len(sample.tokens)).exp()
        for sample, chances in zip(asked, self._all_gather(asked, found, 1), strict=True):
            sample.answers = tuple(chances[:, 0].tolist())

    def _spoken(self, answer: str, sample: TrainingSample) -> list[int]:
        """Encode the answer as the policy would write it."""
        first = sample.trajectory.steps[0]
        action = self._encoder.dialect.render([Answer(text=answer)], (first.width, first.height))
        return self._encoder.completion(action)

    def _find_reference(self, samples: Sequence[TrainingSample], frame: Frames) -> None:
        if "reference" not in self._algorithm.signals:
            return
        for part, one, live in self._passes(samples, [sample.branches for sample in samples], frame):
            logprobs = self._network.reference_logprobs(one)
            if live:
                for sample, own in zip(part, logprobs.split(one.sizes), strict=True):
                    sample.reference = own

    # -- one optimiser step ---------------------------------------------------------------------------------

    def _optimise(self, part: Sequence[TrainingSample], frame: Frames) -> _Step | None:
        """Take one optimiser step; return None if no trajectory of `part` has a gradient."""
        objective = self._algorithm.objective
        learned = [sample for sample in part if sample.has_gradient(objective)]
        if not learned:
            return None
        totals = loss_denominators(part)
        self.optimizer.zero_grad()
        loss, flops, tokens, sums = 0.0, 0.0, 0, no_sums(objective)
        for samples, one, live in self._passes(learned, [sample.branches for sample in learned], frame):
            if not live:  # it may be another process's sample, whose signals are not known here
                (0.0 * self._network.score(one).logprobs.sum()).backward()
                continue
            batch = self._tokens(one, samples, totals)
            found = objective_loss(batch, objective, self._history)
            found.value.backward()
            loss += float(found.value.detach())
            sums = added(sums, found.sums)
            tokens += len(one.ids)
            flops += self._network.flops(one)
        norm = clip_gradients(self.model.parameters(), self._config.max_grad_norm)
        loss, flops, packed = self._ranks.sum([loss, flops, float(tokens)])
        finite = math.isfinite(loss) and math.isfinite(norm)
        sums = over_ranks(sums, self._ranks)
        if finite:
            self.optimizer.step()
            self._history = remembered(self._history, sums)
        self._count_skipped(not finite)
        return _Step(loss, norm, sums, finite, packed, flops)

    def _tokens(self, one: PackedBatch, samples: Sequence[TrainingSample], totals: Totals) -> Tokens:
        objective = self._algorithm.objective
        scores = self._network.score(one, entropy_gradient=objective.entropy is not None)
        device = scores.logprobs.device

        def of_steps(values: Callable[[TrainingSample], Sequence[float]]) -> Tensor:
            return torch.tensor([x for sample in samples for x in values(sample)], device=device)[one.turns]

        def of_tokens(values: Sequence[Tensor | None]) -> Tensor | None:
            known = [x for x in values if x is not None]
            return torch.cat(known) if len(known) == len(values) else None

        weights = token_weights(one.turns, one.trajectories, totals, objective.aggregation, self._longest)
        labelled = "labels" in self._algorithm.signals
        return Tokens(
            logprobs=scores.logprobs,
            entropy=scores.entropy,
            behaviour=one.behaviour,
            advantages=of_steps(lambda sample: sample.advantages),
            weights=weights * of_steps(lambda sample: [float(kept) for kept in sample.kept]),
            turns=one.turns,
            trajectories=one.trajectories,
            steps=one.steps,
            proximal=of_tokens([sample.proximal for sample in samples]),
            reference=of_tokens([sample.reference for sample in samples]),
            desirable=of_steps(lambda sample: sample.desirable) if labelled else None,
        )

    def _count_skipped(self, skipped: bool) -> None:
        self._skipped = self._skipped + 1 if skipped else 0
        if self._skipped >= _MAX_SKIPPED:
            raise DivergedError(
                f"{_MAX_SKIPPED} steps in a row had a non-finite loss or gradient; lower update.learning_rate"
            )

    def _figures(self, steps: Sequence[_Step], seconds: float) -> dict[str, float]:
        """Return means over the optimiser steps, and sums of their costs."""
        n = max(len(steps), 1)
        sums: dict[str, float] = {}
        for step in steps:
            sums = added(sums, step.sums)
        found = summary(sums)
        tokens = sum(step.packed_tokens for step in steps)
        return (
            found
            | {name: value / n for name, value in found.items() if name.startswith("loss_")}
            | {
                "loss": sum(step.loss for step in steps) / n,
                "grad_norm": sum(step.norm for step in steps) / n,
                "updates": float(sum(step.finite for step in steps)),
                "skipped_updates": float(sum(not step.finite for step in steps)),
                "trained_tokens": sums.get("tokens", 0.0),
                "packed_tokens": tokens,
                "packed_tokens_per_second": tokens / seconds,
                "model_flops": sum(step.flops for step in steps),
                "learner_seconds": seconds,
            }
        )

    # -- shares of the processes ----------------------------------------------------------------------------

    def _shard(self, samples: Sequence[TrainingSample]) -> None:
        mine = set(shares([sample.cost for sample in samples], self._ranks.world)[self._ranks.rank])
        for index, sample in enumerate(samples):
            sample.mine = index in mine

    def _passes(
        self, samples: Sequence[TrainingSample], trees: Sequence[list[Branch]], frame: Frames
    ) -> Iterator[tuple[list[TrainingSample], PackedBatch, bool]]:
        """Yield this process's packs: members, pack, and `Pass.live` (`training.learner.microbatches`)."""
        own = [index for index, sample in enumerate(samples) if sample.mine]
        found = passes(
            trees,
            own,
            lambda some: self._network.pack(some, frame),
            budget=self._config.batch_tokens,
            ranks=self._ranks,
            ahead=self._network.device.type != "cpu",
        )
        for members, one, live in found:
            yield [samples[index] for index in members], one.to(self._network.device), live

    def _all_gather(
        self, samples: Sequence[TrainingSample], own: Mapping[int, Tensor], width: int
    ) -> list[Tensor]:
        """Gather [steps, width] of each sample from the one process that has it to all of them."""
        device = self._network.device
        shapes = [(len(sample.tokens), width) for sample in samples]
        known = [
            own[id(sample)].reshape(shape) if id(sample) in own else torch.zeros(shape, device=device)
            for sample, shape in zip(samples, shapes, strict=True)
        ]
        if self._ranks.world == 1 or not known:
            return known
        flat = self._ranks.sum(torch.cat(known).flatten().tolist())
        whole = torch.tensor(flat, device=device).reshape(-1, width)
        return list(whole.split([steps for steps, _ in shapes]))


def _step_means(values: Tensor, steps: Tensor, count: int) -> Tensor:
    """Average one trajectory's [tokens] values over each step: [count]; 0 for a step without tokens."""
    sums = steps.bincount(values.double(), minlength=count)
    return (sums / steps.bincount(minlength=count).clamp(min=1)).float()
