"""The presets: what they say of themselves, what they ask for, and that their losses can be computed."""

import dataclasses
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Sequence

import pytest
import torch

import training.algorithms
from tests.members import ALL_SIGNALS, group, without
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import Algorithm, Clipped, Correction, Kl, Kto, Member, Regression, Signal
from training.losses.history import no_history
from training.losses.objective import objective_loss
from training.losses.tokens import Tokens

NAMES = sorted(ALGORITHMS)
PUBLISHED = {
    *("adagrpo", "arpo", "bc", "bepa", "dapo", "dart_code", "dart_paper", "digirl", "dr_grpo", "empg", "epo"),
    *("gigpo", "gspo", "igpo", "pae", "rloo", "seagent", "spa", "st_ppo", "steve", "traj_rpo", "uis1"),
    *("webrl", "zerogui"),
}


def test_an_algorithm_is_found_by_its_name():
    assert {name: algorithm.name for name, algorithm in ALGORITHMS.items()} == {n: n for n in PUBLISHED}
    with pytest.raises(dataclasses.FrozenInstanceError):
        ALGORITHMS["arpo"].name = "other"  # type: ignore[misc]


def test_the_algorithms_can_be_listed_without_torch():
    code = "import sys, training.algorithms; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_its_file_names_the_paper_and_what_we_do_otherwise(name: str):
    algorithm = ALGORITHMS[name]
    modules = [
        importlib.import_module(f"training.algorithms.{found.name}")
        for found in pkgutil.iter_modules(training.algorithms.__path__)
        if not found.ispkg
    ]
    [home] = [module for module in modules if any(one is algorithm for one in vars(module).values())]
    assert home.__doc__ is not None
    assert f"arXiv {algorithm.paper}" in home.__doc__
    assert "What we do otherwise, and why:" in home.__doc__


# Signals


def asked_by_loss(algorithm: Algorithm) -> set[Signal]:
    objective, asked = algorithm.objective, set[Signal]()
    surrogate = objective.surrogate
    if objective.kl or objective.negatives is not None or isinstance(surrogate, Kto | Regression):
        asked.add("reference")
    if isinstance(surrogate, Kto) or objective.negatives is not None:
        asked.add("labels")
    if objective.correction or objective.step_mask is not None:
        asked.add("proximal")
    if isinstance(surrogate, Clipped) and surrogate.against == "proximal":
        asked.add("proximal")
    return asked


def credited(algorithm: Algorithm, members: Sequence[Member]) -> list[list[float]] | None:
    """None where the credit refuses to do without a signal."""
    try:
        return algorithm.credit(members)
    except ValueError as error:
        assert "needs the signal" in str(error)
        return None


@pytest.mark.parametrize("name", NAMES)
def test_it_names_the_signals_that_it_reads_and_no_others(name: str):
    algorithm = ALGORITHMS[name]
    everything = credited(algorithm, group())
    assert everything is not None
    read = {s for s in ALL_SIGNALS if credited(algorithm, without(group(), s)) != everything}
    assert read | asked_by_loss(algorithm) == algorithm.signals


@pytest.mark.parametrize("name", NAMES)
def test_its_loss_and_gradient_are_finite_with_just_the_signals_it_names(name: str):
    algorithm = ALGORITHMS[name]

    def tokens(signals: frozenset[Signal]) -> Tokens:
        """Two trajectories of two turns, three tokens a turn; one advantage of each sign."""
        generator = torch.Generator().manual_seed(0)
        near = torch.randn(12, generator=generator) / 10 - 1
        logprobs = near.clone().requires_grad_()
        return Tokens(
            logprobs=logprobs,
            entropy=-logprobs,
            behaviour=near + 0.05,
            advantages=torch.tensor([1.0, -1.0]).repeat_interleave(6),
            weights=torch.full((12,), 1 / 12),
            turns=torch.arange(4).repeat_interleave(3),
            trajectories=torch.arange(2).repeat_interleave(6),
            steps=torch.tensor([0, 1, 0, 1]).repeat_interleave(3),
            proximal=near + 0.01 if "proximal" in signals else None,
            reference=near - 0.02 if "reference" in signals else None,
            desirable=torch.tensor([1.0, 0.0, 0.0, -1.0]).repeat_interleave(3)
            if "labels" in signals
            else None,
        )

    batch = tokens(algorithm.signals)
    loss = objective_loss(batch, algorithm.objective, no_history())
    loss.value.backward()
    assert loss.value.isfinite()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.isfinite().all()
    assert batch.logprobs.grad.abs().sum() > 0
    for signal in asked_by_loss(algorithm) & {"reference", "proximal"}:
        if signal == "proximal" and algorithm.objective.correction is None:
            continue  # only the step mask reads it
        with pytest.raises(ValueError, match=signal):
            objective_loss(tokens(algorithm.signals - {signal}), algorithm.objective, no_history())


# Numbers that make a preset what it is


@pytest.mark.parametrize(
    ("name", "level", "low", "high", "dual", "aggregation", "kl"),
    [
        ("arpo", "token", 0.2, 0.3, 3.0, "traj_mean_token_mean", None),
        ("traj_rpo", "token", 0.2, 0.3, 3.0, "token_mean", None),
        (
            "zerogui",
            "token",
            0.2,
            0.2,
            None,
            "turn_mean_token_mean",
            Kl(form="k2", coef=0.1, advantage_cap=True),
        ),
        ("dart_paper", "token", 0.1, 0.28, None, "turn_mean_token_mean", Kl(form="k3", coef=0.1)),
        ("dart_code", "turn", 0.1, 0.28, None, "turn_mean_token_mean", Kl(form="k3", coef=0.1)),
        ("gigpo", "token", 0.2, 0.2, None, "token_mean", Kl(form="k3", coef=0.01)),
        ("st_ppo", "turn", 0.2, 0.2, None, "token_mean", None),
        ("dapo", "token", 0.2, 0.28, None, "token_mean", None),
        ("gspo", "sequence", 3e-4, 4e-4, None, "traj_mean_token_mean", None),
        ("dr_grpo", "token", 0.2, 0.2, None, "token_sum", None),
    ],
)
def test_the_published_numbers_of_clipped_objectives(name, level, low, high, dual, aggregation, kl):
    objective = ALGORITHMS[name].objective
    surrogate = objective.surrogate
    assert isinstance(surrogate, Clipped)
    assert (surrogate.level, surrogate.low, surrogate.high, surrogate.dual) == (level, low, high, dual)
    assert (objective.aggregation, objective.kl) == (aggregation, kl)


def test_dart_truncates_at_one_and_only_its_paper_masks_steps():
    for name, mask in (("dart_paper", 0.2), ("dart_code", None)):
        objective = ALGORITHMS[name].objective
        assert objective.correction == Correction(level="token", kind="truncate", cap=1.0)
        assert objective.step_mask == mask


def test_which_presets_drop_groups_that_teach_nothing():
    dropping = {name for name in NAMES if ALGORITHMS[name].flat_groups == "drop"}
    assert dropping == {"zerogui", "dapo", "dart_paper", "dart_code"}
    assert {name: ALGORITHMS[name].min_std for name in NAMES if ALGORITHMS[name].min_std} == {"uis1": 0.3}


def test_arpos_buffer_is_as_published():
    rescue = dataclasses.asdict(ALGORITHMS["arpo"].replay)
    del rescue["max_age"]
    assert rescue == {
        "capacity": 8,
        "keep_above": 0.1,
        "std_below": 0.05,
        "mean_below": 0.2,
        "slot": "first",
        "source": "uniform",
    }
