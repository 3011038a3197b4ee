"""The vocabulary of algorithms: each is a few pure parts and their numbers. Imports no torch.

How a closed group of rollouts becomes a gradient:

    filter, replay    which groups are learned from, and which stored trajectories replace or join fresh ones
    reward            one number per trajectory; None masks it
    credit            the group's rewards and signals -> the advantage of every step of every member
    objective         the loss: surrogate(ratio) * correction + kl - entropy, aggregated over the whole step

    L(theta) = sum over tokens of  weight * correction * surrogate(ratio, advantage)  + kl - entropy
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from guiagent.types import Trajectory
from rewards.judges.step import Label
from training.config import Aggregation, FlatGroups

Level = Literal["token", "turn", "sequence", "running"]
"""The tokens over which a ratio's geometric mean is taken: the token alone, the turn's (ST-PPO), the
trajectory's (GSPO), or the trajectory's so far."""

Signal = Literal[
    "reference",  # log-probabilities under a frozen copy of the starting policy
    "proximal",  # log-probabilities, and the entropy of each step, under the policy at the start of the step
    "values",  # a learned critic's values of every step, and of the instruction
    "labels",  # correct, redundant or wrong, step by step
    "progress",  # the estimated chance of success after every step
    "answers",  # the probability of the task's known answer before every step
]
"""What the learner computes for members that are not masked, besides what a trajectory holds.

- "reference", "proximal": `Tokens.reference` and `Tokens.proximal`; the latter's pass, made before the step's
  first update, gives `AdvantageInput.entropies` as well.
- "values": `training.model.critic.Critic` on the hidden state before each step's first sampled token, and 0
after
  the last step; `AdvantageInput.task_value` reads the first step's. The critic is fitted to the outcomes of
  the batch after credit was given.
- "labels", "progress": `training.learner.signals.Signals`. Labels make `Tokens.desirable` too: 1 correct, -1
wrong.
- "answers": before each step the geometric mean of the token probabilities of
  `training.learner.signals.known_answer`, written as the action that ends the episode with it; None where
  there is no known answer.
"""


@dataclass(frozen=True, kw_only=True)
class Clipped:
    """PPO's clipped surrogate: `max(-r A, -clamp(r, 1 - low, 1 + high) A)`, for A < 0 at most `-A dual`.

    `against` names the ratio's denominator. `bias` "norm" divides by the size of the clipped tokens' share,
    S-PPO's correction (arXiv 2511.20718).
    """

    level: Level
    low: float
    high: float
    dual: float | None = None
    against: Literal["behaviour", "proximal"] = "behaviour"
    bias: Literal["none", "norm"] = "none"


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """`-A log pi`: behaviour cloning where A is 1, weighted regression where it is a weight, REINFORCE."""


@dataclass(frozen=True, kw_only=True)
class Kto:
    """KTO on whole steps labelled desirable or not (arXiv 2402.01306). Needs "reference", "labels"."""

    beta: float
    desirable: float  # weight lambda_D
    undesirable: float


@dataclass(frozen=True, kw_only=True)
class Regression:
    """WebRL's loss: the squared distance of `beta * log ratio to the reference / tokens` from the advantage,
    for A > 0 only."""

    beta: float


Surrogate = Clipped | Likelihood | Kto | Regression


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Importance weights against the mismatch of sampler and trainer: w = proximal / behaviour at `level`.

    They are cut at `cap` ("truncate") or masked outside [1/cap, cap] ("mask"). A token without a behaviour
    log-probability has weight 1, and is counted.
    """

    level: Literal["token", "turn", "sequence"]
    kind: Literal["truncate", "mask"]
    cap: float


@dataclass(frozen=True, kw_only=True)
class Kl:
    """`coef * kl(policy, reference)` per token; `advantage_cap` limits its gradient to |A| (ZeroGUI)."""

    form: Literal["k1", "k2", "k3"]
    coef: float
    advantage_cap: bool = False


@dataclass(frozen=True, kw_only=True)
class EntropyTerm:
    """`-coef * decay**update * entropy`; with a `band`, EPO's penalty for leaving [low, high] times its
    historical mean (`training.losses.entropy`)."""

    coef: float
    decay: float = 1.0
    band: tuple[float, float] | None = None
    band_weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss of one optimiser step.

    `step_mask` q leaves out the steps whose mean token entropy is below the group's q-quantile (DART);
    `negatives` is the weight of SEAgent's `-log sigmoid(-(log ratio to the reference))` on steps labelled
    wrong, which then have no other term.
    """

    surrogate: Surrogate
    aggregation: Aggregation
    correction: Correction | None = None
    kl: Kl | None = None
    entropy: EntropyTerm | None = None
    step_mask: float | None = None
    negatives: float | None = None


def reads_reference(objective: Objective) -> bool:
    """Whether the loss needs the reference's log-probabilities."""
    preference = isinstance(objective.surrogate, Kto | Regression)
    return preference or objective.kl is not None or objective.negatives is not None


@dataclass(frozen=True, kw_only=True)
class AdvantageInput:
    """What credit may read of one trajectory. Signals that the algorithm does not name are None."""

    reward: float | None  # reward by `Algorithm.reward`; None masks the trajectory
    outcome: float | None  # the score itself
    frames: tuple[str, ...]  # the screen before each step, by its hash
    tokens: tuple[int, ...]  # sampled tokens of each step
    replayed: bool = False
    entropies: tuple[float, ...] | None = None  # mean token entropy of each step
    values: tuple[float, ...] | None = None  # the critic's values before each step and after the last
    task_value: float | None = None  # the critic's value of the instruction alone
    labels: tuple[Label | None, ...] | None = None
    progress: tuple[float, ...] | None = None  # progress after each step, in [0, 1]
    answers: tuple[float, ...] | None = (
        None  # probability of the known answer before each step; None if there is no known answer
    )


Credit = Callable[[Sequence[AdvantageInput]], list[list[float]]]
"""Maps a group to the advantage of every step of every member; all 0 for a masked member."""


@dataclass(frozen=True, kw_only=True)
class RescueAllFail:
    """A group that failed as a whole gets an earlier success of its task in place of one member.

    It reads outcomes, never shaped rewards. Each task keeps its `capacity` newest trajectories with an
    outcome above `keep_above`; a group is rescued when its outcomes have a population deviation below
    `std_below` and a mean below `mean_below`, by one that was sampled at most `max_age` policy versions ago.
    """

    capacity: int
    keep_above: float
    std_below: float
    mean_below: float
    max_age: int
    slot: Literal["first", "oldest", "random"] = "first"  # which member is replaced
    source: Literal["uniform", "newest"] = "uniform"  # which success replaces it


@dataclass(frozen=True, kw_only=True)
class PositiveMix:
    """Earlier successes join fresh groups of their task: `share` times as many as the group has members, or
    that times the share of failures among them (`harder`, AdaGRPO), rounded half up.

    Each task keeps its `capacity` newest successes. Those qualify that were sampled at most `max_age` policy
    versions ago, and whose tokens were sampled with a probability whose geometric mean is within `confidence`
    (WebRL).
    """

    share: float
    capacity: int
    max_age: int
    harder: bool = False
    confidence: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class FromBuffer:
    """Off-policy learning: fresh groups only feed a buffer, and as many trajectories as were fresh are drawn
    from it.

    The buffer holds the newest `capacity` trajectories. `keep` says which are kept; with `shortest` q only
    those are drawn that are no longer than the q-quantile of their task (PAE's 0.2).
    """

    capacity: int
    keep: Literal["successes", "all"]
    shortest: float | None = None


ReplayRule = RescueAllFail | PositiveMix | FromBuffer


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A published algorithm. `flat_groups` "drop" is DAPO's dynamic sampling, "drop_by_outcome" its form for
    rewards that tell failures apart; `min_std` drops groups whose rewards deviate by less (UI-S1)."""

    name: str
    paper: str  # arXiv number
    reward: Callable[[Trajectory], float | None]
    credit: Credit
    objective: Objective
    replay: ReplayRule | None = None
    flat_groups: FlatGroups = "keep"
    min_std: float = 0.0
    signals: frozenset[Signal] = frozenset()
