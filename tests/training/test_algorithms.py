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
from tests.support.members import ALL_SIGNALS, group, without
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import (
    AdvantageInput,
    Algorithm,
    Clipped,
    Correction,
    EntropyTerm,
    FromBuffer,
    Kl,
    Kto,
    Likelihood,
    PositiveMix,
    Regression,
    RescueAllFail,
    Signal,
)
from training.losses.history import no_history
from training.losses.objective import objective_loss
from training.losses.tokens import Tokens

NAMES = sorted(ALGORITHMS)
PUBLISHED = {  # whose numbers stand below; a preset that is added has tests of its own
    *("adagrpo", "arpo", "bc", "bepa", "dapo", "dart_code", "dart_paper", "digirl", "dr_grpo", "empg", "epo"),
    *(
        "gigpo",
        "grpo",
        "gspo",
        "igpo",
        "pae",
        "ppo",
        "rloo",
        "seagent",
        "spa",
        "st_ppo",
        "steve",
        "traj_rpo",
        "uis1",
    ),
    *("webrl", "zerogui"),
}


def test_an_algorithm_is_found_by_its_name():
    assert all(name == algorithm.name for name, algorithm in ALGORITHMS.items())
    assert ALGORITHMS.keys() >= PUBLISHED
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


def credited(algorithm: Algorithm, members: Sequence[AdvantageInput]) -> list[list[float]] | None:
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
        ("epo", "token", 0.2, 0.2, None, "token_mean", Kl(form="k3", coef=0.01)),
        ("uis1", "token", 0.2, 0.2, None, "token_mean", Kl(form="k3", coef=1e-4)),
        ("bepa", "token", 0.2, 0.2, None, "traj_mean_token_mean", None),
        ("adagrpo", "token", 0.2, 0.2, None, "traj_mean_token_mean", None),
        ("spa", "token", 0.2, 0.2, None, "traj_mean_token_mean", None),
        ("igpo", "token", 0.2, 0.2, None, "traj_mean_token_mean", None),
        ("empg", "token", 0.2, 0.2, None, "token_mean", None),
        ("st_ppo", "turn", 0.2, 0.2, None, "token_mean", None),
        ("grpo", "token", 0.2, 0.2, None, "traj_mean_token_mean", Kl(form="k3", coef=0.04)),
        ("ppo", "token", 0.2, 0.2, None, "token_mean", None),
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


@pytest.mark.parametrize(
    ("name", "surrogate", "aggregation", "kl", "negatives"),
    [
        ("seagent", Likelihood(), "turn_mean_token_mean", Kl(form="k3", coef=0.04), 0.2),
        ("steve", Kto(beta=0.1, desirable=1.0, undesirable=1.0), "turn_mean_token_mean", None, None),
        ("webrl", Regression(beta=1.0), "turn_mean_token_mean", None, None),
        ("digirl", Likelihood(), "turn_mean_token_mean", None, None),
        ("pae", Likelihood(), "turn_mean_token_mean", None, None),
        ("bc", Likelihood(), "turn_mean_token_mean", None, None),
        ("rloo", Likelihood(), "token_sum", None, None),
    ],
)
def test_the_published_numbers_of_other_objectives(name, surrogate, aggregation, kl, negatives):
    objective = ALGORITHMS[name].objective
    assert objective.surrogate == surrogate
    assert (objective.aggregation, objective.kl, objective.negatives) == (aggregation, kl, negatives)


def test_which_presets_correct_for_what_sampled_and_against_what_their_ratios_are():
    corrected = {name: ALGORITHMS[name].objective.correction for name in PUBLISHED}
    assert {name: one for name, one in corrected.items() if one} == {
        "dart_paper": Correction(level="token", kind="truncate", cap=1.0),
        "dart_code": Correction(level="token", kind="truncate", cap=1.0),
        "gspo": Correction(level="token", kind="truncate", cap=2.0),
        "rloo": Correction(level="token", kind="truncate", cap=2.0),
    }
    surrogates = {name: ALGORITHMS[name].objective.surrogate for name in PUBLISHED}
    clipped = {name: one for name, one in surrogates.items() if isinstance(one, Clipped)}
    proximal = {name for name, one in clipped.items() if one.against == "proximal"}
    assert proximal == {"dart_paper", "dart_code", "gspo"}
    assert {name for name, one in clipped.items() if one.bias == "norm"} == {"st_ppo"}


def test_darts_paper_and_code_differ_in_two_things():
    paper, code = (dataclasses.asdict(ALGORITHMS[name].objective) for name in ("dart_paper", "dart_code"))
    assert (paper.pop("step_mask"), code.pop("step_mask")) == (0.2, None)
    assert (paper["surrogate"].pop("level"), code["surrogate"].pop("level")) == ("token", "turn")
    assert paper == code


def test_of_the_published_ones_only_epo_speaks_of_entropy():
    terms = {name: ALGORITHMS[name].objective.entropy for name in PUBLISHED}
    epo = EntropyTerm(coef=0.001, decay=1.0, band=(0.8, 1.2), band_weight=1.0)
    assert {name: term for name, term in terms.items() if term} == {"epo": epo}


def test_which_presets_drop_groups_that_teach_nothing():
    dropping = {name for name in PUBLISHED if ALGORITHMS[name].flat_groups == "drop"}
    assert dropping == {"zerogui", "dapo", "dart_paper", "dart_code"}
    assert {name: ALGORITHMS[name].min_std for name in PUBLISHED if ALGORITHMS[name].min_std} == {"uis1": 0.3}


def test_what_comes_back_and_where():
    """Ages are ours; the other numbers of `arpo`, `dart_*` and `bepa`'s one place are as published."""
    arpo = RescueAllFail(capacity=8, keep_above=0.1, std_below=0.05, mean_below=0.2, max_age=100)
    dart = RescueAllFail(
        capacity=8,
        keep_above=0.0,
        std_below=1e-6,
        mean_below=1e-6,
        max_age=100,
        slot="oldest",
        source="newest",
    )
    bepa = RescueAllFail(
        capacity=1,
        keep_above=0.5,
        std_below=0.05,
        mean_below=0.05,
        max_age=100,
        slot="random",
        source="newest",
    )
    assert (arpo.slot, arpo.source) == ("first", "uniform")
    rules = {name: ALGORITHMS[name].replay for name in PUBLISHED}
    assert {name: rule for name, rule in rules.items() if rule} == {
        "arpo": arpo,
        "traj_rpo": dataclasses.replace(arpo, slot="random"),
        "dart_paper": dart,
        "dart_code": dart,
        "bepa": bepa,
        "adagrpo": PositiveMix(share=0.25, capacity=8, max_age=100, harder=True),
        "webrl": PositiveMix(share=2.0, capacity=32, max_age=100, confidence=(0.5, 0.95)),
        "pae": FromBuffer(capacity=20_000, keep="successes", shortest=0.2),
        "digirl": FromBuffer(capacity=200, keep="all"),
    }
