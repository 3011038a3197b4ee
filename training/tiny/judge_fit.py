"""Train the small judge (`guiagent train --recipe tiny-judge`): collect episodes, fit, measure thresholds.

The fit starts from the small policy, which can see and aim already. It minimises the cross-entropy of the
verdict on whole episodes, of the expectation after every screen (the progress estimator's target is the
outcome of the replayed episode), and of the clicks of successes. A tenth of the episodes is held out, to
measure the thresholds at which a vote passes and fails.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from transformers import PreTrainedModel

from guiagent.client import FarmClient
from guiagent.dialects.ui_tars import UiTars
from guiagent.episode import run_episode
from guiagent.errors import InfrastructureError
from guiagent.protocols import Device, Policy
from guiagent.seeds import DEMONSTRATIONS
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.judges.cases import JudgeInput, case_of
from rewards.tasksets.miniwob import TRAIN_TASKS
from training.config import SMALL_POLICY, JudgeFitConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.model.pretrained import open_model
from training.tiny import collecting, forgeries, labelled, model, supervised
from training.tiny.collecting import Job, KeepFrame, OnProgress, Progress
from training.tiny.judge import Thresholds
from training.tiny.reading import read, show, verdicts

EPISODES = "episodes"  # folder of the episodes in a run's folder

MAX_NEW_TOKENS = 16
_HELD_OUT = 10  # one episode in so many is for measuring the thresholds
_EXPECTATION_WEIGHT, _CLICK_WEIGHT = 0.2, 0.3
_SHIFTED, _SHIFT_PX = 0.5, 6  # share of the samples, and pixels
_IDLE, _IDLE_PICTURED, _PICTURED, _CLAIMED = 0.04, 0.04, 0.04, 0.1  # shares of forged samples
_OWN_WEIGHT = 3  # how often a page's own task is drawn, against each kind of proposal
_HARD_WEIGHT = 3  # how often `_HARD` pages are drawn, against others: their elements differ in a few pixels
_HARD = frozenset({"click-test-2", "click-color", "click-widget", "identify-shape"})
_FALSE_PASSES, _FALSE_FAILS = 0.05, 0.05  # share of failures a vote may pass, of successes it may fail
_CASES = 64  # cases measured at once


async def collect(
    farm: FarmClient, store: TrajectoryStore, config: JudgeFitConfig, on_progress: OnProgress
) -> None:
    """Run and commit `config.labelled` episodes; those already in the store are not run again."""
    policy = LocalPolicy(Encoder(SMALL_POLICY), Sampling(max_new_tokens=MAX_NEW_TOKENS), seed=config.seed)
    plan = labelled.plan(config.labelled, config.seed, TRAIN_TASKS, DEMONSTRATIONS)
    try:
        await collecting.collect(
            farm,
            store,
            jobs(plan, policy, config.seed),
            config.devices,
            lambda done: on_progress(Progress(done, config.labelled)),
        )
    finally:
        policy.close()


def jobs(plan: Iterable[labelled.Planned], policy: Policy, seed: int) -> list[Job]:
    """One job for each planned episode, in order; if no task can be proposed, the page's own is run."""
    tasks = labelled.LabelledTasks()

    async def play(index: int, planned: labelled.Planned, device: Device, keep: KeepFrame) -> Trajectory:
        task = tasks.task(planned)
        hand = labelled.CarelessHand(task, UiTars(model.FACTOR), seed=seed * 10**9 + index)
        actor: Policy = policy if planned.by_policy else hand
        trajectory = await run_episode(
            task, device, actor, keep_frame=keep, spec=planned.spec, id=_id(index), group=planned.acted_by
        )
        if trajectory.fault is not None and trajectory.fault.code == "nothing_to_propose":
            return await play(index, planned._replace(kind=""), device, keep)
        return trajectory

    return [
        Job(_id(index), planned.page, partial(play, index, planned)) for index, planned in enumerate(plan)
    ]


def fit(run: Path, config: JudgeFitConfig, on_progress: OnProgress) -> Path:
    """Train a judge on the episodes in `run`; return the folder of its checkpoint and thresholds.

    Raises InfrastructureError if there are too few episodes of either outcome, and what `supervised.fit`
    raises.
    """
    episodes, output = run / EPISODES, run / "judge"
    fitted = supervised.fit(
        partial(losses, episodes),
        SMALL_POLICY,
        run / "checkpoints",
        config,
        lambda step, loss: on_progress(Progress(step, config.steps, loss)),
    )
    with supervised.made_of(fitted, output) as made, TrajectoryStore(episodes, readonly=True) as store:
        model.halve(made)
        held_out = [t for i, t in enumerate(store) if t.valid and i % _HELD_OUT == 0]
        found = thresholds(*measure(made, held_out, store.frame))
        (made / "judge.json").write_bytes(msgspec.json.encode(found))
    return output


def measure(
    checkpoint: Path, trajectories: Sequence[Trajectory], frame: Callable[[str], bytes]
) -> tuple[list[float], list[bool]]:
    """The probability the model gives each episode's success, and whether it was one."""
    encoder, network = Encoder(checkpoint), open_model(checkpoint).float()
    probabilities: list[float] = []
    for start in range(0, len(trajectories), _CASES):
        cases = [case_of(t, frame) for t in trajectories[start : start + _CASES]]
        probabilities += verdicts(network, encoder, [show(case, encoder) for case in cases])
    return probabilities, [trajectory.success for trajectory in trajectories]


def thresholds(probabilities: Sequence[float], successes: Sequence[bool]) -> Thresholds:
    """Choose thresholds: at most `_FALSE_PASSES` of failures pass, at most `_FALSE_FAILS` of successes fail.

    `pass_from` is never below 0.5, `fail_to` never above. Raises InfrastructureError without both outcomes.
    """
    pairs = list(zip(probabilities, successes, strict=True))
    failures = sorted(p for p, success in pairs if not success)
    passes = sorted(p for p, success in pairs if success)
    if not failures or not passes:
        raise InfrastructureError("there are no episodes of both outcomes to measure: collect more of them")
    pass_from = math.nextafter(failures[math.ceil(len(failures) * (1 - _FALSE_PASSES)) - 1], math.inf)
    fail_to = math.nextafter(passes[math.floor(len(passes) * _FALSE_FAILS)], -math.inf)
    return Thresholds(max(pass_from, 0.5), min(fail_to, 0.5))


def losses(
    episodes: Path,
    network: PreTrainedModel,
    encoder: Encoder,
    size: int,
    generators: Iterator[random.Random],
) -> Iterator[torch.Tensor]:
    """Yield the loss of each batch, as the module docstring describes it."""
    with TrajectoryStore(episodes, readonly=True) as store:
        draws = _Draws([t for i, t in enumerate(store) if t.valid and i % _HELD_OUT], store.frame)
        for rng in generators:
            samples = [draws.draw(rng) for _ in range(size)]
            by = [
                (rng.randint(-_SHIFT_PX, _SHIFT_PX), rng.randint(-_SHIFT_PX, _SHIFT_PX))
                if rng.random() < _SHIFTED
                else (0, 0)
                for _ in samples
            ]
            shown = [show(case, encoder, shift) for (case, _), shift in zip(samples, by, strict=True)]
            made = read(network, encoder, shown)
            met = torch.tensor([met for _, met in samples], dtype=torch.float32)
            every = met.repeat_interleave(torch.tensor([len(s.ends) for s in shown]))
            right = made.clicks[made.last][met == 1]
            yield (
                cross_entropy(made.verdicts[made.last], met)
                + _EXPECTATION_WEIGHT * cross_entropy(made.expectations, every)
                - _CLICK_WEIGHT * right.sum() / size
            )


class _Draws:
    """Draw cases with outcomes: successes and failures, of both actors, equally often; some are forged."""

    def __init__(self, trajectories: Sequence[Trajectory], frame: Callable[[str], bytes]) -> None:
        self._frame = frame
        self._found: defaultdict[tuple[str, bool], defaultdict[str, list[Trajectory]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for trajectory in trajectories:
            self._found[trajectory.task, trajectory.success][trajectory.group].append(trajectory)
        self._tasks = sorted(task for task, _ in self._found if (task, True) in self._found)
        if not self._tasks:
            raise InfrastructureError("no episode to learn from succeeded: collect more of them")
        self._weights = [_weight(task) for task in self._tasks]

    def draw(self, rng: random.Random) -> tuple[JudgeInput, bool]:
        task, met = rng.choices(self._tasks, self._weights)[0], rng.random() < 0.5
        trajectory = self._one(task, met, rng)
        return self._forged(task, case_of(trajectory, self._frame), trajectory.success, rng)

    def _one(self, task: str, met: bool, rng: random.Random) -> Trajectory:
        by_player = self._found[task, met] or self._found[task, not met]
        return rng.choice(by_player[rng.choice(sorted(by_player))])

    def _forged(self, task: str, case: JudgeInput, met: bool, rng: random.Random) -> tuple[JudgeInput, bool]:
        draw = rng.random()
        if draw < _IDLE:
            return forgeries.idle(case), False
        draw -= _IDLE
        if draw < _IDLE_PICTURED + _PICTURED:
            goal = self._frame(self._one(task, True, rng).final_frame)
            if draw < _IDLE_PICTURED:
                return forgeries.pictured(forgeries.idle(case), goal), False
            return forgeries.pictured(case, goal), met
        draw -= _IDLE_PICTURED + _PICTURED
        if draw < _CLAIMED:
            return forgeries.claimed(case, rng.sample(forgeries.CLAIMS, 2), rng), met
        return case, met


def _weight(task: str) -> int:
    page, _, kind = task.partition("/")
    return (1 if kind else _OWN_WEIGHT) * (_HARD_WEIGHT if page in _HARD else 1)


def _id(index: int) -> str:
    return f"labelled-{index:06d}"
