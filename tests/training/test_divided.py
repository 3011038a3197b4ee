"""A learner whose trajectories take several passes each finds the losses and gradients of one pass."""

import dataclasses
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
import torch
from PIL import Image

from guiagent.errors import UsageError
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from training.algorithms import ALGORITHMS
from training.algorithms.algorithm import Algorithm, Correction
from training.config import HistoryConfig, UpdateConfig
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.inputs.history import addition
from training.inputs.packing import stored_tokens, tree
from training.learner.labels import Labels
from training.learner.learner import Learner, LearnerContext
from training.learner.signals import SignalSources
from training.losses.objective import reads_whole_trajectory
from training.model.network import Placement
from training.replay import Group
from training.tiny.progress import ProgressEstimator

Kind = Literal["anchored", "sliding"]
KINDS: tuple[Kind, ...] = ("anchored", "sliding")
TURNS = (5, 1, 4, 3)
GSPO = ALGORITHMS["gspo"]


def changed(name: str, **surrogate: Any) -> Algorithm:
    """GSPO with another surrogate, and a correction over the whole trajectory."""
    objective = dataclasses.replace(
        GSPO.objective,
        surrogate=dataclasses.replace(GSPO.objective.surrogate, low=0.05, high=0.05, **surrogate),
        correction=Correction(level="sequence", kind="truncate", cap=1.5),
    )
    return dataclasses.replace(GSPO, name=name, objective=objective)


# Weights by trajectory, turn and token; ratios by token, turn, trajectory and trajectory so far; earlier
# log-probabilities, a reference, a critic, labels, answers, step masks, an entropy band.
CASES = {
    name: ALGORITHMS[name]
    for name in ("arpo", "gigpo", "st_ppo", "dart_paper", "epo", "seagent", "steve", "igpo", "webrl")
} | {
    "trajectory": changed("trajectory"),
    "so far": changed("so far", level="running"),
    "clipped share": changed("clipped share", level="turn", bias="norm"),
}


class Episodes(NamedTuple):
    group: Group
    screens: dict[str, bytes]


def screen(seed: int) -> bytes:
    data = io.BytesIO()
    Image.frombytes("RGB", (96, 64), random.Random(seed).randbytes(96 * 64 * 3)).save(data, "PNG")
    return data.getvalue()


def episode(encoder: Encoder, kind: Kind, seed: int, turns: int, screens: dict[str, bytes]) -> Trajectory:
    """All begin on the same screen."""
    rng = random.Random(seed)
    steps: list[Step] = []
    shown: list[bytes] = []
    for turn in range(turns):
        name = f"{seed}/{turn}" if turn else "first"
        shown.append(screens.setdefault(name, screen(100 * seed + turn if turn else 0)))
        outputs = [step.policy for step in steps]
        added = addition(encoder, HistoryConfig(kind=kind, images=2), "Click on Tab #2.", outputs, shown)
        reply = [rng.randrange(50, len(encoder.tokenizer)) for _ in range(rng.randint(2, 6))]
        output = PolicyOutput(
            "", completion_ids=reply, logprobs=[rng.uniform(-7, -5) for _ in reply], **added._asdict()
        )
        steps.append(Step(name, 96, 64, output))
    score = Score(float(seed % 2), evidence={"expected": "9"})
    return Trajectory(f"t{seed}", "task", 0, "Click on Tab #2.", steps, "task_done", score, group="g")


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


@pytest.fixture(scope="module", params=KINDS)
def episodes(request: pytest.FixtureRequest, encoder: Encoder) -> Iterator[Episodes]:
    screens: dict[str, bytes] = {}
    members = tuple(episode(encoder, request.param, n, turns, screens) for n, turns in enumerate(TURNS))
    yield Episodes(Group("g", "task", 0, members, members, staleness=0), screens)


def labelled(trajectory: Trajectory) -> Labels:
    return tuple("wrong" if step % 2 else "correct" for step in range(len(trajectory.steps)))


def opened(checkpoint: Path, encoder: Encoder, algorithm: Algorithm, batch_tokens: int) -> Learner:
    config = UpdateConfig(max_grad_norm=1e9, epochs=2, batch_tokens=batch_tokens)
    context = LearnerContext(sources=SignalSources(labelled, ProgressEstimator), longest=40)
    learner = Learner(checkpoint, encoder, algorithm, config, context, Placement(torch.device("cpu")))
    # Unlike Adam's, its steps are as far apart as the gradients are.
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), lr=0.02)
    return learner


def gradient(learner: Learner) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1).double() for p in learner.model.parameters() if p.grad is not None])


def longest_context(group: Group) -> int:
    return max(len(context.ids) for member in group.members for context in contexts(member))


@pytest.mark.parametrize("case", CASES)
def test_in_several_passes_a_step_is_that_of_one(
    checkpoint: Path, encoder: Encoder, episodes: Episodes, case: str
) -> None:
    group, screens = episodes
    bound = longest_context(group) + 4
    assert any(stored_tokens(tree(contexts(member), encoder.image_token)) > bound for member in group.members)
    one, divided = (opened(checkpoint, encoder, CASES[case], tokens) for tokens in (2**20, bound))
    expected, found = (learner.step([group], screens.__getitem__).metrics for learner in (one, divided))
    assert found.pop("packed_tokens") > expected.pop("packed_tokens")  # what contexts share is stored again
    assert found.pop("model_flops") > expected.pop("model_flops")
    assert found.keys() == expected.keys()
    for name in found.keys() - {"learner_seconds", "packed_tokens_per_second"}:
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    assert float(gradient(one).norm()) > 0
    difference = (gradient(divided) - gradient(one)).norm() / gradient(one).norm()
    assert difference <= 1e-4  # of the second step: float32 leaves 2e-6 of the first, which it follows


def test_the_ratio_of_a_trajectory_is_not_that_of_its_pieces(
    checkpoint: Path, encoder: Encoder, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the log-probabilities of its other pieces the loss of one is another."""
    algorithm = CASES["trajectory"]
    assert reads_whole_trajectory(algorithm.objective)
    group, screens = episodes
    whole = opened(checkpoint, encoder, algorithm, 2**20)
    whole.step([group], screens.__getitem__)
    monkeypatch.setattr("training.learner.learner.reads_whole_trajectory", lambda objective: False)
    alone = opened(checkpoint, encoder, algorithm, longest_context(group))
    alone.step([group], screens.__getitem__)
    assert (gradient(alone) - gradient(whole)).norm() / gradient(whole).norm() > 1e-3


def test_only_ratios_and_norms_over_trajectories_are_scored_beforehand() -> None:
    named = {name for name, one in ALGORITHMS.items() if reads_whole_trajectory(one.objective)}
    assert named == {"gspo", "st_ppo"}


def test_no_pass_is_longer_than_the_bound(
    checkpoint: Path, encoder: Encoder, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, screens = episodes
    bound = longest_context(group) + 10
    learner = opened(checkpoint, encoder, ALGORITHMS["dart_paper"], bound)
    seen: list[int] = []
    forward = learner.model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["input_ids"].shape[1])
        return forward(*args, **kwargs)

    monkeypatch.setattr(learner.model, "forward", counted)
    learner.step([group], screens.__getitem__)
    assert len(seen) >= 9 and max(seen) <= bound


def test_a_context_over_the_bound_is_refused_before_anything_is_learned(
    checkpoint: Path, encoder: Encoder, episodes: Episodes
) -> None:
    group, screens = episodes
    learner = opened(checkpoint, encoder, ALGORITHMS["arpo"], longest_context(group) - 1)
    with pytest.raises(UsageError, match=r"longer than update\.batch_tokens"):
        learner.step([group], screens.__getitem__)
    assert all(parameter.grad is None for parameter in learner.model.parameters())
