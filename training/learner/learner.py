"""The learner: computes optimiser steps from closed groups. It knows tensors and tokens, but no devices.

    groups -> samples -> signals (earlier log-probabilities, values, labels) -> credit -> losses -> steps

Several processes are all given the same groups. Each computes its share of the forward and backward passes,
and as many passes as the others, because those of a sharded model are collective.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from guiagent.actions import Answer
from guiagent.errors import DivergedError, UsageError
from training.algorithms.algorithm import Algorithm
from training.algorithms.reward import outcome
from training.checkpoints.checkpoint import Loaded
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Snapshot
from training.config import UpdateConfig
from training.distributed.parallel import clip_gradients
from training.inputs.encoder import Encoder
from training.learner import optimizers
from training.learner.answer_probes import probes
from training.learner.frames import DealtFrames, Frames
from training.learner.loss_tokens import loss_tokens
from training.learner.samples import (
    TrainingSample,
    assign_advantages,
    build_samples,
    loss_denominators,
    minibatches,
)
from training.learner.scoring import Scorer
from training.learner.signals import Signals, SignalSources, known_answer
from training.losses.history import History, no_history, remembered
from training.losses.metrics import added, over_ranks, summary
from training.losses.objective import no_sums, objective_loss, reads_whole_trajectory
from training.model.critic import Critic, with_end
from training.model.freed import give_back
from training.model.network import Checkpoints, Network, Placement
from training.replay import Group

_MAX_SKIPPED = 5


@dataclass(frozen=True)
class LearnerContext:
    """What a learner needs to know about its run."""

    start: Path | None = None  # the run's first checkpoint (the reference), if a later one is opened
    temperature: float = 1.0  # of the rollouts
    longest: int = 1  # the most tokens that can be sampled in a trajectory
    sources: SignalSources = field(default_factory=SignalSources)


_NO_RUN = LearnerContext()


class Update(NamedTuple):
    """The result of learning from a batch of groups: metrics by name, and whether the weights changed.

    `taught` names the trajectories whose outcome or labels moved them (`TrainingSample.teaches`).
    """

    metrics: dict[str, float]
    stepped: bool
    taught: frozenset[str] = frozenset()


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
        self._scorer = Scorer(self._network, config, placement.ranks)
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
        frames = DealtFrames(frame, self._ranks)
        samples = [build_samples(group, self._algorithm, self._encoder.image_token) for group in groups]
        counted = [sample for group in samples for sample in group if sample.reward is not None]
        self._scorer.share(counted, frames)
        self._find_signals(counted, frames)
        for group in samples:
            assign_advantages(group, self._algorithm)
        surprise = self._fit_critic(counted)
        parts = minibatches(groups, samples, self._config.minibatches)
        learned = [sample for sample in counted if sample.has_gradient(self._algorithm.objective)]
        if "proximal" not in self._algorithm.signals:  # "proximal" stays in the process that computed it
            self._scorer.share(learned, frames)
        self._find_reference(learned, frames)
        taken = [self._optimise(part, frames) for _ in range(self._config.epochs) for part in parts]
        give_back()
        figures = self._figures([one for one in taken if one is not None], time.perf_counter() - began)
        objective = self._algorithm.objective
        taught = frozenset(sample.trajectory.id for sample in counted if sample.teaches(objective))
        metrics = figures | surprise | {"trained": float(len(learned))}
        return Update(metrics, figures["updates"] > 0, taught)

    def save(self, directory: Path) -> None:
        """Write an ordinary Hugging Face folder: model, tokenizer, image processor; adapters beside them."""
        self._network.save(directory)

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the model's tensors by their checkpoint names, for the engine. On rank 0."""
        return self._network.weights()

    def adapter(self) -> dict[str, Tensor]:
        """Return the adapters alone, for an engine that holds the other weights. On rank 0."""
        return self._network.adapter()

    def snapshot(self, *, last: bool = False) -> Snapshot:
        """Copy what is learned, for a checkpoint: rank 0 writes it, the other ranks follow it.

        The `last` one of a run has the policy as a Hugging Face folder, however large it is.
        """
        return Snapshot(
            Learned(self._network.trained, self.optimizer),
            self._network,
            self._ranks.writers,
            extra={"critic": critic} if (critic := self.critic_state()) else {},
            last=last,
        )

    def load(self, loaded: Loaded) -> None:
        """Take what is learned from a checkpoint whose state has this learner's own under "learner".

        Raises InfrastructureError if it cannot be read, or is of another model.
        """
        loaded.restore(Learned(self._network.trained, self.optimizer))
        optimizers.hold(self.optimizer, self._config.learning_rate, self._config.weight_decay)
        self.restore(loaded.state["learner"], loaded.extra("critic"))

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

    def _find_signals(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        """Find all signals but "reference", which only samples with a gradient need."""
        named = self._algorithm.signals
        if named & {"proximal", "values"}:
            self._score_initial_policy(samples, frames)
        if "answers" in named:
            self._find_answers(samples, frames)
        if "labels" in named:
            for sample in samples:
                sample.labels = self._signals.labels(sample.trajectory)
        if "progress" in named:
            self._find_progress(samples, frames)

    def _score_initial_policy(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        """Score every trajectory with the policy before the first update: "proximal" and "values"."""
        entropies: dict[int, Tensor] = {}
        states: dict[int, Tensor] = {}
        found = self._scorer.scores(samples, frames, hidden=self._critic is not None)
        for sample in samples:
            if (one := found.get(id(sample))) is None:
                continue
            sample.proximal = one.logprobs
            steps = sample.steps.to(one.entropy.device)
            entropies[id(sample)] = _step_means(one.entropy, steps, len(sample.tokens))
            if one.hidden is not None:
                shape = len(sample.tokens), one.hidden.shape[1]
                states[id(sample)] = one.hidden.new_zeros(shape, dtype=torch.float32)
                states[id(sample)][steps.unique()] = one.hidden.float()
        for sample, known in zip(samples, self._scorer.gather(samples, entropies, 1), strict=True):
            sample.entropies = tuple(known[:, 0].tolist())
        if self._critic is not None:
            size = self._network.hidden_size
            for sample, state in zip(samples, self._scorer.gather(samples, states, size), strict=True):
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

    def _find_answers(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        """Score the known answers; one so long that no pass holds it is like one that is not known."""
        known = {id(one): words for one in samples if (words := known_answer(one.trajectory)) is not None}
        asked = [sample for sample in samples if id(sample) in known]
        image = self._encoder.image_token
        spoken = [self._spoken(known[id(one)], one) for one in asked]
        trees = [probes(one.branches, words, image) for one, words in zip(asked, spoken, strict=True)]
        fits = [
            max(len(branch.context.ids) for branch in tree) <= self._config.batch_tokens for tree in trees
        ]
        asked, spoken = list(compress(asked, fits)), list(compress(spoken, fits))
        found = self._scorer.scores(asked, frames, list(compress(trees, fits)))
        chances: dict[int, Tensor] = {}
        for sample, tokens in zip(asked, spoken, strict=True):
            if (one := found.get(id(sample))) is not None:
                steps = sample.steps.unique().repeat_interleave(len(tokens)).to(one.logprobs.device)
                chances[id(sample)] = _step_means(one.logprobs, steps, len(sample.tokens)).exp()
        for sample, known_chances in zip(asked, self._scorer.gather(asked, chances, 1), strict=True):
            sample.answers = tuple(known_chances[:, 0].tolist())

    def _find_progress(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        device = self._network.device
        found = {
            id(one): torch.tensor(self._signals.progress(one.trajectory, frames), device=device)
            for one in samples
            if one.mine
        }
        for sample, known in zip(samples, self._scorer.gather(samples, found, 1), strict=True):
            sample.progress = tuple(known[:, 0].tolist())

    def _spoken(self, answer: str, sample: TrainingSample) -> list[int]:
        """Encode the answer as the policy would write it."""
        first = sample.trajectory.steps[0]
        action = self._encoder.dialect.render([Answer(text=answer)], (first.width, first.height))
        return self._encoder.completion(action)

    def _find_reference(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        if "reference" not in self._algorithm.signals:
            return
        found = self._scorer.reference(samples, frames)
        for sample in samples:
            sample.reference = found.get(id(sample))

    # -- one optimiser step ---------------------------------------------------------------------------------

    def _optimise(self, part: Sequence[TrainingSample], frames: DealtFrames) -> _Step | None:
        """Take one optimiser step; return None if no trajectory of `part` has a gradient."""
        objective = self._algorithm.objective
        learned = [sample for sample in part if sample.has_gradient(objective)]
        if not learned:
            return None
        totals = loss_denominators(part)
        self._find_present(learned, frames)
        self.optimizer.zero_grad()
        loss, flops, tokens, sums = 0.0, 0.0, 0, no_sums(objective)
        for parts, pack in self._scorer.passes(learned, frames):
            scores = self._network.score(pack, entropy_gradient=objective.entropy is not None)
            if not parts:
                (0.0 * scores.logprobs.sum()).backward()
                continue
            found = objective_loss(
                loss_tokens(parts, scores, self._algorithm, totals, self._longest), objective, self._history
            )
            found.value.backward()
            loss += float(found.value.detach())
            sums = added(sums, found.sums)
            tokens += len(pack.ids)
            flops += self._network.flops(pack)
        norm = clip_gradients(self.model.parameters(), self._config.max_grad_norm)
        loss, flops, packed = self._ranks.sum([loss, flops, float(tokens)])
        finite = math.isfinite(loss) and math.isfinite(norm)
        sums = over_ranks(sums, self._ranks)
        if finite:
            self.optimizer.step()
            self._history = remembered(self._history, sums)
        self._count_skipped(not finite)
        return _Step(loss, norm, sums, finite, packed, flops)

    def _find_present(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        """Score trajectories that take several passes under the present weights, if their loss needs it.

        A ratio over a whole trajectory is a number for each of its tokens; the gradient is their own.
        """
        if not reads_whole_trajectory(self._algorithm.objective):
            return
        divided = [sample for sample in samples if sample.cost > self._config.batch_tokens]
        found = self._scorer.scores(divided, frames)
        for sample in divided:
            sample.present = found[id(sample)].logprobs if id(sample) in found else None

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


def _step_means(values: Tensor, steps: Tensor, count: int) -> Tensor:
    """Average one trajectory's [tokens] values over each step: [count]; 0 for a step without tokens."""
    sums = steps.bincount(values.double(), minlength=count)
    return (sums / steps.bincount(minlength=count).clamp(min=1)).float()
