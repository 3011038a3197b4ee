"""The whole loss: aggregation, what must not change it, its gradients at the edges, and what it measures."""

import dataclasses
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.algorithms.algorithm import (
    Clipped,
    Correction,
    EntropyTerm,
    Kl,
    Kto,
    Likelihood,
    Objective,
    Regression,
)
from training.distributed.ranks import SingleProcess
from training.losses.aggregation import Totals, token_weights
from training.losses.history import no_history, remembered, usual_entropy
from training.losses.metrics import added, over_ranks, summary
from training.losses.objective import no_sums, objective_loss
from training.losses.tokens import Tokens

AGGREGATIONS = (
    "token_mean",
    "turn_mean_token_mean",
    "traj_mean_token_mean",
    "traj_mean_turn_mean_token_mean",
    "token_sum",
)
LONGEST = 8

PPO = Clipped(level="token", low=0.2, high=0.3, dual=3.0)
OBJECTIVES = {
    "arpo": Objective(surrogate=PPO, aggregation="traj_mean_token_mean"),
    "zerogui": Objective(
        surrogate=PPO,
        aggregation="turn_mean_token_mean",
        kl=Kl(form="k2", coef=0.1, advantage_cap=True),
    ),
    "dart": Objective(
        surrogate=Clipped(level="sequence", low=0.1, high=0.28, against="proximal"),
        aggregation="turn_mean_token_mean",
        correction=Correction(level="token", kind="truncate", cap=1.0),
        kl=Kl(form="k3", coef=0.1),
    ),
    "st_ppo": Objective(
        surrogate=Clipped(level="turn", low=0.2, high=0.2, bias="norm"), aggregation="token_mean"
    ),
    "running": Objective(surrogate=Clipped(level="running", low=0.2, high=0.2), aggregation="token_sum"),
    "masked": Objective(
        surrogate=PPO,
        aggregation="traj_mean_turn_mean_token_mean",
        correction=Correction(level="turn", kind="mask", cap=2.0),
    ),
    "epo": Objective(
        surrogate=PPO,
        aggregation="token_mean",
        entropy=EntropyTerm(coef=0.001, decay=0.99, band=(0.8, 1.2), band_weight=1.0),
    ),
    "seagent": Objective(
        surrogate=PPO, aggregation="turn_mean_token_mean", kl=Kl(form="k3", coef=0.04), negatives=0.2
    ),
    "steve": Objective(
        surrogate=Kto(beta=0.1, desirable=1.0, undesirable=1.0), aggregation="turn_mean_token_mean"
    ),
    "webrl": Objective(surrogate=Regression(beta=1.0), aggregation="turn_mean_token_mean"),
    "pae": Objective(surrogate=Likelihood(), aggregation="token_mean"),
}
HISTORY = {"updates": 3, "kl": 0.4, "entropy": [(6.0, 5.0), (3.0, 4.0)]}

Row = tuple[list[float], float]  # log ratio of each token, advantage
Trajectories = list[list[Row]]  # a trajectory is its turns

NUMBER = st.floats(-2, 2).map(lambda x: round(x, 3))
TURN = st.tuples(st.lists(NUMBER, max_size=3), NUMBER)
STEPS = st.lists(st.lists(TURN, min_size=1, max_size=3), min_size=1, max_size=5)


def loss_denominators(step: Trajectories) -> Totals:
    return Totals(
        tokens=sum(len(turn) for trajectory in step for turn, _ in trajectory),
        turns=sum(bool(turn) for trajectory in step for turn, _ in trajectory),
        trajectories=sum(any(turn for turn, _ in trajectory) for trajectory in step),
    )


def tokens_of(
    step: Trajectories, objective: Objective, totals: Totals | None = None, dtype=torch.float64
) -> Tokens:
    """Flat tokens whose other figures follow from their log ratios, so that they are the same however cut."""
    logs, advantages, turns, trajectories, steps = [], [], [], [], []
    turn_number = 0
    for number, trajectory in enumerate(step):
        for index, (turn, advantage) in enumerate(trajectory):
            logs += turn
            advantages += [advantage] * len(turn)
            turns += [turn_number] * len(turn)
            trajectories += [number] * len(turn)
            steps += [index] * len(turn)
            turn_number += 1
    ratios = torch.tensor(logs, dtype=dtype)
    numbers = torch.tensor(turns, dtype=torch.long)
    owners = torch.tensor(trajectories, dtype=torch.long)
    weights = token_weights(
        numbers, owners, totals or loss_denominators(step), objective.aggregation, LONGEST
    )
    a = torch.tensor(advantages, dtype=dtype)
    return Tokens(
        logprobs=(ratios - 1.0).requires_grad_(),
        entropy=(1.0 + ratios.sin()).requires_grad_(),
        behaviour=torch.where(ratios == 0.5, torch.nan, -1.0).to(dtype),
        advantages=a,
        weights=weights.to(dtype),
        turns=numbers,
        trajectories=owners,
        steps=torch.tensor(steps, dtype=torch.long),
        proximal=ratios * 0.5 - 1.0,
        reference=ratios * 0.25 - 1.0,
        desirable=a.sign(),
    )


def loss_and_gradients(tokens: Tokens, objective: Objective, history=HISTORY):
    loss = objective_loss(tokens, objective, history)
    gradients = torch.autograd.grad(
        loss.value, (tokens.logprobs, tokens.entropy), allow_unused=True, materialize_grads=True
    )
    return loss, torch.cat(gradients), loss.value.item()


# ---------------------------------------------------------------- aggregation


@pytest.mark.parametrize(
    ("aggregation", "longest", "expected"),
    [
        ("token_mean", 1, 0.176776),
        ("turn_mean_token_mean", 1, 0.141421),
        ("traj_mean_token_mean", 1, 0.0),
        ("traj_mean_turn_mean_token_mean", 1, 0.0),
        ("token_sum", 8, 0.088388),
    ],
)
def test_worked_numbers_of_the_aggregations(aggregation, longest, expected):
    turns = torch.tensor([0, 0, 1, 2, 2, 3, 3, 4])
    trajectories = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1])
    weights = token_weights(
        turns, trajectories, Totals(tokens=8, turns=5, trajectories=2), aggregation, longest
    )
    advantages = torch.where(trajectories == 0, 0.707106, -0.707106)
    assert (-weights * advantages).sum().item() == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(STEPS, st.sampled_from(AGGREGATIONS[:-1]))
def test_the_weights_of_a_step_sum_to_one(step, aggregation):
    objective = dataclasses.replace(OBJECTIVES["arpo"], aggregation=aggregation)
    weights = tokens_of(step, objective).weights
    assert weights.sum().item() == pytest.approx(1.0 if len(weights) else 0.0, abs=1e-6)


# ---------------------------------------------------------------- what must not change the loss


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 4), st.sampled_from(sorted(OBJECTIVES)), st.sampled_from(AGGREGATIONS))
def test_neither_micro_batches_nor_ranks_change_the_step(step, size, name, aggregation):
    objective = dataclasses.replace(OBJECTIVES[name], aggregation=aggregation)
    whole, gradient, value = loss_and_gradients(tokens_of(step, objective), objective)

    totals = loss_denominators(step)
    parts = [step[start : start + size] for start in range(0, len(step), size)]
    split = [loss_and_gradients(tokens_of(part, objective, totals), objective) for part in parts]
    assert sum(v for _, _, v in split) == pytest.approx(value, abs=1e-9)
    lengths = [len(g) // 2 for _, g, _ in split]
    for half in (0, 1):
        pieces = [g[half * n : (half + 1) * n] for (_, g, _), n in zip(split, lengths, strict=True)]
        assert torch.allclose(torch.cat(pieces), gradient.chunk(2)[half], atol=1e-9)

    ranks = [no_sums(objective), no_sums(objective)]
    for i, (loss, _, _) in enumerate(split):
        ranks[i % 2] = added(ranks[i % 2], loss.sums)
    together = met(ranks)
    assert together[0] == together[1]
    assert summary(together[0]) == pytest.approx(summary(whole.sums), rel=1e-9, abs=1e-9)
    assert remembered(HISTORY, together[0])["entropy"] == [
        pytest.approx(pair) for pair in remembered(HISTORY, whole.sums)["entropy"]
    ]


class Meeting:
    """Two processes as two threads: what one brings to a sum waits for what the other brings."""

    world = 2

    def __init__(self, rank: int, brought: list[list[float]], barrier: threading.Barrier) -> None:
        self.rank, self._brought, self._barrier = rank, brought, barrier

    def sum(self, values):
        return [sum(pair) for pair in zip(*self._exchange(values), strict=True)]

    def largest(self, values):
        return [max(pair) for pair in zip(*self._exchange(values), strict=True)]

    def _exchange(self, values):
        self._brought[self.rank] = list(values)
        self._barrier.wait()
        both = list(self._brought)
        self._barrier.wait()  # both have read before either brings the next
        return both


def met(ranks):
    """What two ranks that bring these sums are each left with."""
    brought, barrier = [[], []], threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda i: over_ranks(ranks[i], Meeting(i, brought, barrier)), range(2)))


def test_alone_the_sums_are_ones_own():
    objective = OBJECTIVES["epo"]
    sums = objective_loss(
        tokens_of([[([0.1], 1.0)], [([0.3, 0.2], -1.0)]], objective), objective, HISTORY
    ).sums
    assert over_ranks(sums, SingleProcess()) == sums


@settings(max_examples=30, deadline=None)
@given(STEPS, st.sampled_from(["arpo", "dart", "st_ppo", "masked"]), st.sampled_from(AGGREGATIONS))
def test_a_trajectory_without_advantage_may_be_left_out_but_is_counted(step, name, aggregation):
    objective = dataclasses.replace(OBJECTIVES[name], aggregation=aggregation, kl=None)
    idle = [[([0.4, -0.3], 0.0), ([0.2], 0.0)]]
    _, gradient, value = loss_and_gradients(tokens_of(step + idle, objective), objective)
    left = tokens_of(step, objective, loss_denominators(step + idle))
    _, without, shorter = loss_and_gradients(left, objective)
    assert shorter == pytest.approx(value, abs=1e-12)
    n = len(left.logprobs)
    assert torch.allclose(gradient[:n], without[:n], atol=1e-12)
    assert not gradient[n : n + 3].any()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_turn_sampled_empty_changes_nothing(name):
    objective = OBJECTIVES[name]
    full = [[([0.3, -0.2], 1.0), ([0.1], 0.5)], [([0.7], -1.0)]]
    gaps = [[([0.3, -0.2], 1.0), ([0.1], 0.5), ([], 2.0)], [([], 1.0)], [([0.7], -1.0)]]
    _, gradient, value = loss_and_gradients(tokens_of(full, objective), objective)
    _, same, equal = loss_and_gradients(tokens_of(gaps, objective), objective)
    assert equal == value
    assert torch.equal(gradient, same)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_nothing_sampled_is_no_loss_and_no_figures(name):
    objective = OBJECTIVES[name]
    loss, gradient, value = loss_and_gradients(tokens_of([], objective), objective)
    assert value == 0.0
    assert not len(gradient)
    assert summary(loss.sums) == {}


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("log_ratio", [200.0, -200.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_absurd_ratios_stay_finite(name, log_ratio, advantage):
    objective = OBJECTIVES[name]
    tokens = tokens_of([[([log_ratio, 0.0, 0.5], advantage)]], objective, dtype=torch.float32)
    loss, gradient, value = loss_and_gradients(tokens, objective)
    assert math.isfinite(value)
    assert torch.isfinite(gradient).all()
    assert all(math.isfinite(figure) for figure in summary(loss.sums).values())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_that_a_mask_leaves_out_has_no_gradient_however_far_off_it_is(name):
    objective = OBJECTIVES[name]
    step = [[([0.3, -0.2], 1.0), ([200.0, -200.0], -1.0)], [([-200.0], 1.0)]]
    tokens = tokens_of(step, objective, dtype=torch.float32)
    kept = torch.tensor([True, True, False, False, False])
    masked = dataclasses.replace(tokens, weights=tokens.weights * kept)
    _, gradient, value = loss_and_gradients(masked, objective)
    assert math.isfinite(value) and gradient.isfinite().all()
    assert not gradient.reshape(2, 5)[:, ~kept].any()
    assert gradient.reshape(2, 5)[:, kept].any()


@pytest.mark.parametrize("level", ["token", "turn", "sequence", "running"])
def test_on_policy_the_gradient_is_that_of_reinforce(level):
    surrogate = Clipped(level=level, low=0.2, high=0.2)
    objective = Objective(surrogate=surrogate, aggregation="token_mean")
    step = [[([0.0, 0.0], 1.5), ([0.0], -0.5)], [([0.0], 2.0)]]
    _, gradient, value = loss_and_gradients(tokens_of(step, objective), objective)
    assert gradient[:4].tolist() == pytest.approx([-0.375, -0.375, 0.125, -0.5])
    assert value == pytest.approx(-(1.5 + 1.5 - 0.5 + 2.0) / 4)


@pytest.mark.parametrize(
    ("level", "cap", "expected"),
    [
        ("token", 1.0, -0.893443),
        ("token", 2.0, -0.975005),
        ("sequence", 1.0, -0.898293),
        ("sequence", 2.0, -0.974596),
    ],
)
def test_worked_numbers_of_a_corrected_step(level, cap, expected):
    objective = Objective(
        surrogate=Clipped(level=level, low=0.1, high=0.28, against="proximal"),
        aggregation="token_mean",
        correction=Correction(level="token", kind="truncate", cap=cap),
    )
    tokens = dataclasses.replace(
        tokens_of([[([0.1, 0.2, 0.3], 1.0)]], objective),
        logprobs=torch.tensor([-0.9, -1.9, -0.6]),
        proximal=torch.tensor([-1.0, -2.0, -0.5]),
        behaviour=torch.tensor([-1.2, -1.5, -0.5]),
    )
    loss = objective_loss(tokens, objective, no_history())
    assert loss.value.item() == pytest.approx(expected, abs=1e-6)


def test_what_is_labelled_wrong_has_no_other_term():
    objective = OBJECTIVES["seagent"]
    step = [[([0.3], 1.0)], [([0.2], -1.0)], [([0.4], 0.0)]]  # right, wrong, and unlabelled
    loss, gradient, value = loss_and_gradients(tokens_of(step, objective), objective)
    repelled, unlabelled = 0.75 * 0.2, 0.75 * 0.4  # log ratios to the reference
    expected = 0.2 * math.log1p(math.exp(repelled)) / 3
    assert loss.sums["loss_negatives"] == pytest.approx(expected)
    assert gradient[1].item() == pytest.approx(0.2 / (1 + math.exp(-repelled)) / 3)
    assert gradient[2].item() == pytest.approx(0.04 * (1 - math.exp(-unlabelled)) / 3)
    assert value == pytest.approx(sum(v for k, v in loss.sums.items() if k.startswith("loss_")))


@pytest.mark.parametrize(("desirable", "expected"), [(1.0, 0.462570), (-1.0, 0.537430), (0.0, 0.0)])
def test_worked_numbers_of_kto_with_the_kl_of_the_step_before(desirable, expected):
    """A log ratio of 2 to the reference over the turn, beta .1, and a KL of .5 a turn: z0 is .05."""
    objective = OBJECTIVES["steve"]
    tokens = tokens_of([[([4 / 3, 4 / 3], desirable)]], objective)
    loss = objective_loss(tokens, objective, {"updates": 1, "kl": 0.5, "entropy": []})
    assert loss.value.item() == pytest.approx(expected, abs=1e-6)


def test_the_entropy_has_a_gradient_only_where_the_objective_speaks_of_it():
    step = [[([0.3, 0.1], 1.0)]]
    for name, moved in (("epo", True), ("arpo", False)):
        _, gradient, _ = loss_and_gradients(tokens_of(step, OBJECTIVES[name]), OBJECTIVES[name])
        assert bool(gradient[2:].any()) is moved


@pytest.mark.parametrize(
    ("name", "missing", "signal"),
    [
        ("dart", "proximal", "proximal"),
        ("zerogui", "reference", "reference"),
        ("steve", "desirable", "labels"),
        ("webrl", "reference", "reference"),
    ],
)
def test_a_missing_signal_is_named(name, missing, signal):
    objective = OBJECTIVES[name]
    tokens = dataclasses.replace(tokens_of([[([0.3], 1.0)]], objective), **{missing: None})
    with pytest.raises(ValueError, match=f"signal '{signal}'"):
        objective_loss(tokens, objective, no_history())


# ---------------------------------------------------------------- what it measures and remembers


def test_figures_of_a_clipped_step():
    objective = OBJECTIVES["arpo"]
    ratios = [[1.5, 1.0], [0.5, 4.0]]
    step = [[([math.log(r) for r in row], a)] for row, a in zip(ratios, (1.0, -1.0), strict=True)]
    loss = objective_loss(tokens_of(step, objective), objective, no_history())
    flat = [r for row in ratios for r in row]
    logs = [math.log(r) for r in flat]
    assert summary(loss.sums) == pytest.approx(
        {
            "ratio_mean": sum(flat) / 4,
            "ratio_max": 4.0,
            "ratio_min": 0.5,
            "clipped_low": 0.25,
            "clipped_high": 0.25,
            "clipped_dual": 0.25,
            "kl": sum(r - 1 - math.log(r) for r in flat) / 4,
            "entropy": sum(1 + math.sin(x) for x in logs) / 4,
            "ess": sum(flat) ** 2 / (4 * sum(r * r for r in flat)),
            "behaviour_missing": 0.0,
            "loss_policy": loss.value.item(),
        }
    )


def test_figures_of_a_correction():
    objective = OBJECTIVES["dart"]
    figures = summary(
        objective_loss(tokens_of([[([0.4, -0.4, 0.5], 1.0)]], objective), objective, no_history()).sums
    )
    w = [1.0, math.exp(-0.2), 1.0]  # proximal / behaviour is e^.2, e^-.2 and unknown
    assert figures["correction_truncated"] == pytest.approx(1 / 3)
    assert figures["behaviour_missing"] == pytest.approx(1 / 3)
    assert figures["correction_ess"] == pytest.approx(sum(w) ** 2 / (3 * sum(x * x for x in w)))
    assert figures["loss_kl"] > 0
    # Of single tokens to what sampled them, whatever the surrogate's ratio is of and to.
    logs = (0.4, -0.4, 0.0)
    assert figures["kl"] == pytest.approx(sum(math.expm1(x) - x for x in logs) / 3)
    importance = [math.exp(x) for x in logs]
    assert figures["ess"] == pytest.approx(sum(importance) ** 2 / (3 * sum(x * x for x in importance)))
    assert figures["ratio_mean"] == pytest.approx(math.exp(0.5 * (0.4 - 0.4 + 0.5) / 3))
    away = [0.75 * x for x in (0.4, -0.4, 0.5)]
    assert figures["kl_reference"] == pytest.approx(sum(math.expm1(-d) + d for d in away) / 3)


def test_the_history_remembers_entropies_by_step_and_the_kl_of_turns():
    objective = OBJECTIVES["epo"]
    step = [[([0.1, 0.2], 1.0), ([0.3], 1.0)], [([0.4], -1.0)]]
    history = no_history()
    for _ in range(2):
        history = remembered(history, objective_loss(tokens_of(step, objective), objective, history).sums)
    first = [1 + math.sin(x) for x in (0.1, 0.2, 0.4)]
    assert history["updates"] == 2
    assert history["entropy"][0] == pytest.approx((2 * sum(first), 6))
    assert history["entropy"][1] == pytest.approx((2 * (1 + math.sin(0.3)), 2))
    assert json.loads(json.dumps(history))["updates"] == 2

    objective = OBJECTIVES["steve"]
    history = remembered(
        no_history(), objective_loss(tokens_of(step, objective), objective, no_history()).sums
    )
    assert history["kl"] == pytest.approx(0.75 * (0.1 + 0.2 + 0.3 + 0.4) / 3)
    away = objective_loss(tokens_of([[([-0.5], 1.0)]], objective), objective, history).sums
    assert remembered(history, away)["kl"] == 0.0  # an estimate of a KL is not let below 0


def test_the_usual_entropy_is_that_of_the_same_step_and_of_none_that_was_never_reached():
    known = usual_entropy(
        {"updates": 1, "kl": 0.0, "entropy": [(6.0, 4.0), (0.0, 0.0), (1.0, 2.0)]},
        torch.tensor([0, 0, 1, 2, 3, 9]),
    )
    assert known.tolist() == pytest.approx([1.5, 1.5, math.nan, 0.5, math.nan, math.nan], nan_ok=True)


def test_a_saved_history_goes_on_as_it_was():
    objective = OBJECTIVES["epo"]
    step = [[([0.1, 0.2], 1.0), ([0.3], 1.0)]]
    history = remembered(HISTORY, objective_loss(tokens_of(step, objective), objective, HISTORY).sums)
    loaded = json.loads(json.dumps(history))
    again = [objective_loss(tokens_of(step, objective), objective, h).value.item() for h in (history, loaded)]
    assert again[0] == again[1]
