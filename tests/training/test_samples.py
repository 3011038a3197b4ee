"""Training samples, without a model: which members count, which have a gradient, which steps a mask keeps."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from guiagent.types import PolicyOutput, Step, Trajectory
from rewards.judges.step import Label
from tests.support.groups import member
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import EntropyTerm, Kl, Likelihood, Objective
from training.learner.samples import TrainingSample, assign_advantages, build_samples, loss_denominators
from training.losses.aggregation import Totals
from training.replay import Group

IMAGE = 9


def episode(value: float | None, *tokens: int) -> Trajectory:
    """Of so many sampled tokens in each turn."""
    steps = [
        Step("", 1, 1, PolicyOutput("x", prompt_ids=[1], completion_ids=[2] * n, logprobs=[-1.0] * n))
        for n in tokens
    ]
    return member("g000000", 0, value, steps=steps)


def lesson(
    advantages: Sequence[float],
    *,
    kept: Sequence[bool] | None = None,
    labels: tuple[Label | None, ...] | None = None,
    reward: float | None = 1.0,
) -> TrainingSample:
    found = TrainingSample(episode(1.0, *(2 for _ in advantages)), False, reward, [])
    found.advantages, found.labels = list(advantages), labels
    found.kept = list(kept) if kept is not None else [True] * len(advantages)
    return found


def group(*values: tuple[float | None, tuple[int, ...]]) -> Group:
    members = tuple(episode(value, *tokens) for value, tokens in values)
    return Group("g000000", "a", 0, members, members, staleness=0)


ARPO, SEAGENT, STEVE = (ALGORITHMS[name].objective for name in ("arpo", "seagent", "steve"))
CLONE = Objective(surrogate=Likelihood(), aggregation="token_mean")
REPELLED = replace(CLONE, negatives=0.2)


@pytest.mark.parametrize(
    ("objective", "found", "has_gradient"),
    [
        (ARPO, lesson([0.0, 0.5]), True),
        (ARPO, lesson([0.0, 0.0]), False),
        (ARPO, lesson([0.0, 0.5], reward=None), False),
        (ARPO, lesson([]), False),
        (ARPO, lesson([0.0, 0.5], kept=[False, True]), True),
        (ARPO, lesson([0.5, 0.0], kept=[False, True]), False),  # what has an advantage is left out
        # The distance from the reference, and the entropy, have a gradient of their own.
        (replace(ARPO, kl=Kl(form="k3", coef=0.1)), lesson([0.0, 0.0]), True),
        (replace(ARPO, entropy=EntropyTerm(coef=0.1)), lesson([0.0, 0.0]), True),
        (replace(ARPO, kl=Kl(form="k3", coef=0.1)), lesson([0.5, 0.5], kept=[False, False]), False),
        # Labels teach where the objective speaks of them.
        (STEVE, lesson([0.0, 0.0], labels=("wrong", None)), True),
        (STEVE, lesson([0.0, 0.0], labels=("redundant", None)), False),
        (REPELLED, lesson([0.0, 0.0], labels=(None, "wrong")), True),
        (REPELLED, lesson([1.0, 0.0], labels=(None, None)), True),
        (CLONE, lesson([0.0, 0.0], labels=(None, "wrong")), False),
    ],
)
def test_who_teaches(objective: Objective, found: TrainingSample, has_gradient: bool):
    assert found.has_gradient(objective) is has_gradient


def test_what_only_kl_or_entropy_moves_does_not_teach():
    for term in ({"kl": Kl(form="k3", coef=0.1)}, {"entropy": EntropyTerm(coef=0.1)}):
        objective = replace(ARPO, **term)
        assert lesson([0.0, 0.0]).has_gradient(objective) and not lesson([0.0, 0.0]).teaches(objective)
        assert lesson([0.0, 0.5]).teaches(objective)
    assert lesson([0.0, 0.0], labels=("wrong", None)).teaches(STEVE)
    assert not lesson([0.5], reward=None).teaches(ARPO)


def test_the_totals_are_of_all_that_is_not_masked_and_of_turns_that_sampled_something():
    idle = TrainingSample(
        episode(0.0, 3, 0, 2), False, 0.0, []
    )  # without an advantage it counts all the same
    masked = TrainingSample(episode(None, 4, 4), False, None, [])
    assert loss_denominators([idle, masked]) == Totals(tokens=5, turns=2, trajectories=1)
    assert loss_denominators([]) == Totals(tokens=0, turns=0, trajectories=0)


def test_what_sampled_nothing_and_what_a_fault_ended_is_masked():
    found = build_samples(
        group((1.0, (2, 1)), (0.0, (0, 0)), (None, (2,)), (0.0, (1,))), ALGORITHMS["arpo"], IMAGE
    )
    assert [one.reward for one in found] == [1.0, None, None, 0.0]
    assert [bool(one.branches) for one in found] == [True, False, False, True]
    assign_advantages(found, ALGORITHMS["arpo"])
    assert [one.advantages for one in found] == [
        pytest.approx([0.707106] * 2, abs=1e-6),
        [0.0] * 2,
        [0.0],
        pytest.approx([-0.707106], abs=1e-6),
    ]


def test_a_mask_of_steps_knows_no_entropies_of_members_that_are_masked():
    """The quantile .2 of .2, .4, .6, .8 and 1 is .36; with the zeros of a masked member it would be less."""
    dart = ALGORITHMS["dart_paper"]
    first, masked, second = build_samples(
        group((1.0, (1, 1)), (None, (1, 1, 1)), (0.0, (1, 1, 1))), dart, IMAGE
    )
    first.entropies, masked.entropies, second.entropies = (0.2, 0.4), (0.0, 0.0, 0.0), (0.6, 0.8, 1.0)
    assign_advantages([first, masked, second], dart)
    assert (first.kept, second.kept) == ([False, True], [True] * 3)
    assert masked.kept == [True] * 3  # nobody looks


@pytest.mark.parametrize(("labels", "expected"), [(None, [0.0, 0.0]), (("correct", "wrong"), [1.0, -1.0])])
def test_what_is_desirable_is_what_is_labelled(labels, expected):
    assert lesson([0.0, 0.0], labels=labels).desirable == expected
