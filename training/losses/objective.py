"""The loss of an objective on one micro-batch: the sum of its parts, and the sums its metrics need."""

import torch
from torch import Tensor

from training.algorithms.algorithm import Clipped, Kto, Likelihood, Objective, Regression, reads_reference
from training.losses.correction import Corrected, corrected
from training.losses.entropy import entropy_loss
from training.losses.history import History, no_history, usual_entropy
from training.losses.kl import kl, kl_loss
from training.losses.policy import clipped_loss, clipped_sides, likelihood_loss, regression_loss
from training.losses.preference import kto_loss, negative_loss
from training.losses.ratio import log_ratios
from training.losses.segments import firsts
from training.losses.tokens import Loss, Tokens


def objective_loss(tokens: Tokens, objective: Objective, history: History) -> Loss:
    """A micro-batch's share of the step's loss, `sum of weight (correction surrogate + kl + entropy)`.

    The loss and its gradient add up over micro-batches and ranks, and so do the sums
    (`training.losses.metrics`): whatever depends on the other micro-batches comes in with `tokens.weights`
    and `history`. Steps that a step mask leaves out have weight 0.

    Raises ValueError if the objective needs a signal that `tokens` does not have.
    """
    surrogate, ratio = _surrogate(tokens, objective, history)
    correction = _correction(tokens, objective)
    if correction is not None:
        surrogate = surrogate * correction.weights
    parts = {"policy": surrogate}
    if objective.kl is not None:
        reference = _needed(tokens.reference, "reference")
        parts["kl"] = kl_loss(tokens.logprobs, reference, tokens.advantages, objective.kl)
    if objective.entropy is not None:
        usual = usual_entropy(history, tokens.steps)
        parts["entropy"] = entropy_loss(tokens.entropy, usual, history["updates"], objective.entropy)
    if objective.negatives is not None:
        wrong = _needed(tokens.desirable, "labels") < 0
        repelled = negative_loss(tokens.logprobs, _needed(tokens.reference, "reference"))
        parts = {name: torch.where(wrong, 0.0, part) for name, part in parts.items()}
        parts["negatives"] = torch.where(wrong, objective.negatives * repelled, 0.0)
    weighed = {name: (tokens.weights * part).sum() for name, part in parts.items()}
    with torch.no_grad():
        measured = _measure(tokens, objective, ratio, correction)
        measured |= {f"loss_{name}": part for name, part in weighed.items()}
    return Loss(torch.stack(list(weighed.values())).sum(), _numbers(measured))


def no_sums(objective: Objective) -> dict[str, float]:
    """The sums over no tokens: what a rank starts from, and passes if it had no micro-batch."""
    none, whole = torch.zeros(0), torch.zeros(0, dtype=torch.long)
    nothing = Tokens(
        logprobs=none,
        entropy=none,
        behaviour=none,
        advantages=none,
        weights=none,
        turns=whole,
        trajectories=whole,
        steps=whole,
        proximal=none,
        reference=none,
        desirable=none,
    )
    return objective_loss(nothing, objective, no_history()).sums


def reads_whole_trajectory(objective: Objective) -> bool:
    """Whether a token's loss depends on the present log-probabilities of its trajectory's other turns."""
    surrogate = objective.surrogate
    return isinstance(surrogate, Clipped) and (
        surrogate.level in ("sequence", "running") or surrogate.bias == "norm"
    )


def _surrogate(tokens: Tokens, objective: Objective, history: History) -> tuple[Tensor, Tensor]:
    """The surrogate's loss and the importance ratio for the metrics, both [N]."""
    logprobs, advantages = tokens.logprobs, tokens.advantages
    match objective.surrogate:
        case Clipped() as config:
            earlier = tokens.behaviour if config.against == "behaviour" else tokens.proximal
            logs = log_ratios(
                logprobs, _needed(earlier, "proximal"), config.level, tokens.turns, tokens.trajectories
            )
            ratio = logs.exp()
            return clipped_loss(ratio, advantages, tokens.trajectories, config), ratio
        case Likelihood():
            loss = likelihood_loss(logprobs, advantages)
        case Regression() as config:
            reference = _needed(tokens.reference, "reference")
            loss = regression_loss(logprobs, reference, advantages, tokens.turns, config)
        case Kto() as config:
            reference, desirable = (
                _needed(tokens.reference, "reference"),
                _needed(tokens.desirable, "labels"),
            )
            z0 = config.beta * history["kl"]
            loss = kto_loss(logprobs, reference, desirable, tokens.turns, z0, config)
    return loss, _importance(tokens).exp()


def _correction(tokens: Tokens, objective: Objective) -> Corrected | None:
    if objective.correction is None:
        return None
    proximal = _needed(tokens.proximal, "proximal")
    return corrected(proximal, tokens.behaviour, tokens.turns, tokens.trajectories, objective.correction)


def _importance(tokens: Tokens) -> Tensor:
    """[N]: the log ratio of each token to the behaviour; 0 if the behaviour is missing."""
    return log_ratios(tokens.logprobs.detach(), tokens.behaviour, "token", tokens.turns, tokens.trajectories)


def _measure(
    tokens: Tokens, objective: Objective, ratio: Tensor, correction: Corrected | None
) -> dict[str, Tensor]:
    """Scalar sums under the names that `training.losses.metrics` reads."""
    logs = _importance(tokens).double()
    importance = logs.exp()
    measured = {
        "tokens": torch.ones_like(importance),
        "ratio": ratio,
        "kl": kl(-logs, "k3"),
        "entropy": tokens.entropy,
        "importance": importance,
        "importance_squared": importance.square(),
        "behaviour_missing": tokens.behaviour.isnan(),
    }
    if isinstance(objective.surrogate, Clipped):
        sides = clipped_sides(ratio, tokens.advantages, objective.surrogate)
        measured |= {f"clipped_{side}": where for side, where in sides._asdict().items()}
    if reads_reference(objective):
        difference = tokens.logprobs - _needed(tokens.reference, "reference")
        measured["kl_reference"] = kl(difference, "k3")
        if isinstance(objective.surrogate, Kto):
            measured |= {"turns": firsts(tokens.turns), "turn_kl": difference}
    if correction is not None:
        measured |= {
            "correction": correction.weights,
            "correction_squared": correction.weights.square(),
            "correction_truncated": correction.changed,
        }
    own = slice(None) if tokens.own is None else tokens.own
    totals = {name: values[own].double().sum() for name, values in measured.items()}
    if objective.entropy is not None and objective.entropy.band is not None:
        totals |= _by_step(tokens.steps[own], tokens.entropy[own])
    found = ratio.detach()[own].double()
    totals["ratio_max"] = found.amax() if len(found) else found.new_zeros(())
    totals["ratio_inverse_max"] = found.reciprocal().amax() if len(found) else found.new_zeros(())
    return totals


def _by_step(steps: Tensor, entropy: Tensor) -> dict[str, Tensor]:
    """Sum of entropies and number of tokens for each step index."""
    return {
        f"{kind}/{index}": value
        for kind, values in (
            ("entropy", steps.bincount(entropy.double())),
            ("tokens", steps.bincount().double()),
        )
        for index, value in enumerate(values.unbind())
    }


def _numbers(scalars: dict[str, Tensor]) -> dict[str, float]:
    """Convert scalar tensors to floats, in one transfer from the device."""
    stacked = torch.stack([value.double() for value in scalars.values()])
    return dict(zip(scalars, stacked.tolist(), strict=True))


def _needed(tensor: Tensor | None, signal: str) -> Tensor:
    if tensor is None:
        raise ValueError(f"the objective needs the signal {signal!r}, and the tokens do not have it")
    return tensor
