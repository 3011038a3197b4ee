"""The clipped loss: worked numbers, and what must not change it."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.algorithms.legacy import ALGORITHMS, ClippedLoss
from training.losses.legacy import LossInputs, LossMetrics, policy_loss

CONFIG = ALGORITHMS["arpo"].loss
AGGREGATIONS = ("token_mean", "traj_mean_token_mean")


def inputs(log_ratios, advantages, mask=None, **changes) -> LossInputs:
    """Rows of log ratios, padded on the right and masked there."""
    length = max(len(row) for row in log_ratios)
    behaviour = torch.full((len(log_ratios), length), -1.0)
    logprobs = behaviour.clone()
    full = torch.zeros(behaviour.shape, dtype=torch.bool)
    for i, row in enumerate(log_ratios):
        logprobs[i, : len(row)] += torch.tensor(row)
        full[i, : len(row)] = True
    mask = full if mask is None else torch.tensor(mask)
    totals = {"total_tokens": int(mask.sum()), "total_trajectories": int(mask.any(dim=1).sum())}
    return LossInputs(
        logprobs=logprobs.requires_grad_(),
        behaviour_logprobs=behaviour,
        advantages=torch.tensor(advantages, dtype=torch.float32),
        mask=mask,
        **{**totals, **changes},
    )


def with_aggregation(aggregation: str) -> ClippedLoss:
    return dataclasses.replace(CONFIG, aggregation=aggregation)


def loss_and_gradient(batch: LossInputs, config: ClippedLoss) -> tuple[float, torch.Tensor]:
    batch.logprobs.grad = None
    loss = policy_loss(batch, config).loss
    loss.backward()
    assert batch.logprobs.grad is not None
    return loss.item(), batch.logprobs.grad


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [(1.5, 1, -1.3), (0.5, 1, -0.5), (0.5, -1, 0.8), (4.0, -1, 3.0), (1.1, -1, 1.1), (1.0, 0.7, -0.7)],
)
def test_worked_numbers_of_the_clip(ratio, advantage, loss):
    batch = inputs([[math.log(ratio)]], [advantage])
    assert policy_loss(batch, CONFIG).loss.item() == pytest.approx(loss, abs=1e-6)


def test_worked_numbers_of_the_aggregation():
    batch = inputs([[0.0] * 3, [0.0] * 5], [0.707106, -0.707106])
    for aggregation, expected in (("token_mean", 0.176776), ("traj_mean_token_mean", 0.0)):
        loss = policy_loss(batch, with_aggregation(aggregation)).loss
        assert loss.item() == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(st.floats(-6, 6), st.floats(0.01, 3), st.floats(0, 1))
def test_the_loss_is_monotone_in_the_ratio_and_bounded(log_ratio, advantage, step):
    def at(x: float, a: float) -> float:
        return policy_loss(inputs([[x]], [a]), CONFIG).loss.item()

    assert at(log_ratio + step, advantage) <= at(log_ratio, advantage) + 1e-5  # a good token: more is better
    assert at(log_ratio + step, -advantage) >= at(log_ratio, -advantage) - 1e-5
    assert at(log_ratio, advantage) >= -advantage * (1 + CONFIG.clip_high) - 1e-5
    assert at(log_ratio, -advantage) <= advantage * CONFIG.dual_clip * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize(
    ("ratio", "advantage", "learns"),
    [(1.29, 1, True), (1.31, 1, False), (0.5, 1, True), (0.79, -1, False), (2.9, -1, True), (3.1, -1, False)],
)
def test_a_clipped_token_has_no_gradient(ratio, advantage, learns):
    _, gradient = loss_and_gradient(inputs([[math.log(ratio)]], [advantage]), CONFIG)
    assert gradient.item() == pytest.approx(-ratio * advantage if learns else 0.0, abs=1e-5)


def test_at_ratio_one_the_gradient_is_that_of_reinforce():
    _, gradient = loss_and_gradient(inputs([[0.0, 0.0], [0.0, 0.0]], [1.5, -0.5]), CONFIG)
    assert gradient.tolist() == [[-0.375, -0.375], [0.125, 0.125]]


def test_without_dual_clip_a_bad_token_has_no_bound():
    config = dataclasses.replace(CONFIG, dual_clip=None)
    assert policy_loss(inputs([[math.log(4)]], [-1]), config).loss.item() == pytest.approx(4.0, abs=1e-5)


ROWS = st.lists(
    st.tuples(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6), st.floats(-2, 2, width=32)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from(AGGREGATIONS))
def test_a_split_into_micro_batches_changes_nothing(rows, size, aggregation):
    config = with_aggregation(aggregation)
    whole = inputs([row for row, _ in rows], [a for _, a in rows])
    loss, gradient = loss_and_gradient(whole, config)
    metrics = policy_loss(whole, config).metrics.summary()

    parts, merged = [], LossMetrics()
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        part = inputs(
            [row for row, _ in some],
            [a for _, a in some],
            total_tokens=whole.total_tokens,
            total_trajectories=whole.total_trajectories,
        )
        parts.append((part, *loss_and_gradient(part, config)))
        merged = merged + policy_loss(part, config).metrics
    assert sum(part_loss for _, part_loss, _ in parts) == pytest.approx(loss, abs=1e-5)
    gradients = [g[part.mask] for part, _, g in parts]
    assert torch.allclose(torch.cat(gradients), gradient[whole.mask], atol=1e-6)
    assert merged.summary() == pytest.approx(metrics, rel=1e-5, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.integers(1, 4), st.sampled_from(AGGREGATIONS))
def test_padding_changes_nothing_whatever_it_holds(rows, padding, aggregation):
    config = with_aggregation(aggregation)
    batch = inputs([row for row, _ in rows], [a for _, a in rows])
    loss, gradient = loss_and_gradient(batch, config)
    pad = torch.full((len(rows), padding), torch.nan)
    hidden = torch.where(batch.mask, batch.logprobs, torch.nan).detach()
    padded = dataclasses.replace(
        batch,
        logprobs=torch.cat([hidden, pad], dim=1).requires_grad_(),
        behaviour_logprobs=torch.cat([batch.behaviour_logprobs, -pad], dim=1),
        mask=torch.cat([batch.mask, torch.zeros_like(pad, dtype=torch.bool)], dim=1),
    )
    padded_loss, padded_gradient = loss_and_gradient(padded, config)
    assert padded_loss == pytest.approx(loss, abs=1e-6)
    assert torch.allclose(padded_gradient[:, : gradient.shape[1]], gradient, atol=1e-7)
    assert not padded_gradient[:, gradient.shape[1] :].any()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_an_empty_row_adds_nothing_and_its_gradient_is_finite(aggregation):
    config = with_aggregation(aggregation)
    rows = [[0.3, -0.2], [0.1, 0.1]]
    alone = inputs(rows[:1], [1.0])
    batch = inputs(rows, [1.0, -1.0], mask=[[True, True], [False, False]])
    loss, gradient = loss_and_gradient(batch, config)
    assert loss == pytest.approx(loss_and_gradient(alone, config)[0], abs=1e-7)
    assert not gradient[1].any()
    empty_loss, empty_gradient = loss_and_gradient(inputs(rows, [1.0, 1.0], mask=[[False] * 2] * 2), config)
    assert empty_loss == 0.0
    assert not empty_gradient.any()


@pytest.mark.parametrize("log_ratio", [200.0, -200.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_absurd_ratios_stay_finite(log_ratio, advantage):
    outputs = policy_loss(batch := inputs([[log_ratio, 0.0]], [advantage]), CONFIG)
    outputs.loss.backward()
    assert torch.isfinite(outputs.loss)
    assert torch.isfinite(batch.logprobs.grad).all()
    assert all(math.isfinite(value) for value in outputs.metrics.summary().values())


def test_leaving_out_a_zero_advantage_changes_nothing_but_the_metrics():
    whole = inputs([[0.2, 0.1], [0.3]], [1.0, 0.0])
    part = inputs([[0.2, 0.1]], [1.0], total_tokens=3, total_trajectories=2)
    assert policy_loss(part, CONFIG).loss.item() == policy_loss(whole, CONFIG).loss.item()


def test_metrics():
    ratios = [[1.5, 1.0], [0.5, 4.0]]
    batch = inputs([[math.log(r) for r in row] for row in ratios], [1.0, -1.0])
    flat = [r for row in ratios for r in row]
    assert policy_loss(batch, CONFIG).metrics.summary() == pytest.approx(
        {
            "ratio_mean": sum(flat) / 4,
            "ratio_max": 4.0,
            "clipped_low": 0.25,
            "clipped_high": 0.25,
            "clipped_dual": 0.25,
            "kl": sum(r - 1 - math.log(r) for r in flat) / 4,
            "ess": sum(flat) ** 2 / (4 * sum(r * r for r in flat)),
        },
        rel=1e-5,
    )


def test_k3_is_the_worked_number_and_never_negative():
    assert policy_loss(inputs([[0.1]], [1.0]), CONFIG).metrics.kl == pytest.approx(0.005171, abs=1e-6)
    assert policy_loss(inputs([[-0.1]], [1.0]), CONFIG).metrics.kl == pytest.approx(0.004837, abs=1e-6)
    assert policy_loss(inputs([[1e-5, -1e-5]], [1.0]), CONFIG).metrics.kl >= 0


def test_entropy_is_reported_only_where_it_was_given():
    batch = inputs([[0.0, 0.0], [0.0]], [1.0, 1.0], entropy=torch.tensor([[0.5, 1.0], [1.5, 99.0]]))
    metrics = policy_loss(batch, CONFIG).metrics
    assert metrics.summary()["entropy"] == pytest.approx(1.0)
    assert "entropy" not in (metrics + policy_loss(inputs([[0.0]], [1.0]), CONFIG).metrics).summary()
    assert LossMetrics().summary() == {}


def test_fresh_data_has_a_full_sample():
    assert policy_loss(inputs([[0.0] * 5], [1.0]), CONFIG).metrics.summary()["ess"] == pytest.approx(1.0)
