"""The tokens of a loss: whole trajectories, of which a forward pass may have computed a piece."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from training.algorithms.algorithm import Algorithm
from training.inputs.pieces import Piece
from training.learner.samples import TrainingSample
from training.losses.aggregation import Totals, token_weights
from training.losses.tokens import Tokens
from training.model.forward import Scores


def loss_tokens(
    parts: Sequence[tuple[TrainingSample, Piece]],
    scores: Scores,
    algorithm: Algorithm,
    totals: Totals,
    longest: int,
) -> Tokens:
    """Make the losses' input from what a pass found of its pieces, which stand in its pack in this order.

    Ratios and weights may be means over a trajectory, so that all its tokens are there. Those of its other
    pieces have weight 0, no gradient, and the log-probabilities that `TrainingSample.present` has. `totals`
    are those of the optimiser step, `longest` is the most tokens that a trajectory can have.
    """
    samples = [sample for sample, _ in parts]
    device = scores.logprobs.device
    sizes = [sum(sample.tokens) for sample in samples]
    lengths = [len(sample.tokens) for sample in samples]  # in steps
    steps = torch.cat([sample.steps for sample in samples])
    trajectories = torch.arange(len(parts)).repeat_interleave(torch.tensor(sizes))
    begins = torch.tensor([0, *lengths]).cumsum(0)[:-1]
    turns = (steps + begins[trajectories]).to(device)
    steps, trajectories = steps.to(device), trajectories.to(device)

    def of_steps(values: Callable[[TrainingSample], Sequence[float]]) -> Tensor:
        return torch.tensor([x for sample in samples for x in values(sample)], device=device)[turns]

    def of_tokens(values: Sequence[Tensor | None]) -> Tensor | None:
        known = [x for x in values if x is not None]
        return torch.cat(known) if len(known) == len(values) else None

    weights = token_weights(turns, trajectories, totals, algorithm.objective.aggregation, longest)
    weights = weights * of_steps(lambda sample: [float(kept) for kept in sample.kept])
    pieces = [piece for _, piece in parts]
    own = _own(pieces, sizes, device)
    if own is not None:
        weights = torch.zeros_like(weights).index_copy(0, own, weights[own])
    nothing = [scores.entropy.new_zeros(size) for size in sizes]
    present = [
        none if sample.present is None else sample.present
        for sample, none in zip(samples, nothing, strict=True)
    ]
    return Tokens(
        logprobs=_within(present, pieces, scores.logprobs),
        entropy=_within(nothing, pieces, scores.entropy),
        behaviour=torch.cat([sample.behaviour for sample in samples]).to(device),
        advantages=of_steps(lambda sample: sample.advantages),
        weights=weights,
        turns=turns,
        trajectories=trajectories,
        steps=steps,
        proximal=of_tokens([sample.proximal for sample in samples]),
        reference=of_tokens([sample.reference for sample in samples]),
        desirable=of_steps(lambda sample: sample.desirable) if "labels" in algorithm.signals else None,
        own=own,
    )


def _own(pieces: Sequence[Piece], sizes: Sequence[int], device: torch.device) -> Tensor | None:
    """The places of the pieces' tokens among those of their whole trajectories; None if they are all."""
    if [piece.end - piece.begin for piece in pieces] == list(sizes):
        return None
    begins = torch.tensor([0, *sizes]).cumsum(0).tolist()
    places = [
        torch.arange(begin + piece.begin, begin + piece.end)
        for piece, begin in zip(pieces, begins, strict=False)
    ]
    return torch.cat(places).to(device)


def _within(wholes: Sequence[Tensor], pieces: Sequence[Piece], found: Tensor) -> Tensor:
    """Whole trajectories' values, where the pieces' are those that were `found`."""
    own = found.split([piece.end - piece.begin for piece in pieces])
    return torch.cat(
        [
            torch.cat([whole[: piece.begin], part, whole[piece.end :]])
            for whole, piece, part in zip(wholes, pieces, own, strict=True)
        ]
    )
