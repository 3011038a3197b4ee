"""The shipped small judge on episodes it never saw: `python -m tests.bench.judge` prints two tables.

Episodes as it was fitted to (`training.tiny.labelled`): the small policy's and a careless hand's, on the
pages of the training tasks and on pages that nothing was trained on, with task seeds kept for evaluation. The
pages' own checks know the truth. Plans, players and judge are seeded; which players' requests are answered
together is not, so that some episodes differ from run to run. docs/tiny.md shows the tables.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from guiagent.client import FarmClient
from guiagent.client.local_pool import private_pool
from guiagent.seeds import EVALUATION
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.judges.calibration import Rate, share
from rewards.judges.cases import case_of
from rewards.judges.verdicts import Verdict
from rewards.tasksets.miniwob import HEIGHT, TRAIN_TASKS, UNSEEN_TASKS, WIDTH
from tests.bench.rows import Arm, Row, at_least, at_most, noted
from training.config import SMALL_POLICY
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.tiny import collecting, labelled
from training.tiny.judge import SmallJudge
from training.tiny.judge_fit import MAX_NEW_TOKENS, jobs

_DEVICES = 6
_SEED = 7  # of plans and players
_EPISODES = 2200  # on training pages; takes ten minutes of a processor's time
_FEWER = 1000  # among other benchmarks
_UNSEEN_SHARE = 0.4  # as many more on pages never trained on, with their own instructions
_AT_ONCE = 64  # cases that wait for the judge

Judged = tuple[Trajectory, Verdict]


class Group(NamedTuple):
    name: str
    holds: Callable[[Trajectory], bool]
    goals: tuple[float, float] | None  # of the successes that pass, at least; of the failures, at most


def _page(episode: Trajectory) -> str:
    return episode.task.partition("/")[0]


def _seen(episode: Trajectory, player: str = "policy") -> bool:
    return _page(episode) in TRAIN_TASKS and episode.group == player


def _kind(episode: Trajectory) -> str:
    return episode.task.partition("/")[2]


def _named(episode: Trajectory) -> bool:
    return _seen(episode) and _kind(episode) in ("example", "name")


GROUPS = (
    Group("the policy's, own tasks and proposed", _seen, (0.6, 0.027)),
    Group("of them own tasks", lambda e: _seen(e) and not _kind(e), None),
    Group('of them "example" and "name" proposals', _named, None),
    Group("the careless hand's", lambda e: _seen(e, "hand"), (0.33, 0.024)),
    Group("pages never trained on", lambda e: _page(e) in UNSEEN_TASKS, (0.18, 0.08)),
)


def rows(_: int) -> Iterator[Row]:
    judged = measure(_FEWER)
    for group in GROUPS:
        if group.goals is not None:
            part = [one for one in judged if group.holds(one[0])]
            yield from _rows(f"small judge, {group.name}", part, *group.goals)


def _rows(name: str, part: Sequence[Judged], least: float, most: float) -> Iterator[Row]:
    passed, fooled = _share(part, True, 1.0), _share(part, False, 1.0)
    row = at_least(f"{name}: successes passed", "share", Arm.of(_rate(passed)), least)
    yield noted(row, f"{_interval(passed)}; abstained {_rate(_abstained(part)):.0%} of {len(part)}")
    row = at_most(f"{name}: failures passed", "share", Arm.of(_rate(fooled)), most)
    yield noted(row, _interval(fooled))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.judge", description="The small judge.")
    parser.add_argument("--episodes", type=int, default=_EPISODES, help="on training pages")
    options = parser.parse_args()
    print(tables(measure(options.episodes)))
    return 0


def measure(episodes: int) -> list[Judged]:
    """Plays `episodes` on training pages and the others, and has them judged."""
    with tempfile.TemporaryDirectory() as folder, TrajectoryStore(Path(folder)) as store:
        with private_pool(f"browser={_DEVICES}@{WIDTH}x{HEIGHT}") as pool:
            asyncio.run(_play(store, pool.url, pool.token, episodes))
        return asyncio.run(_judge(store))


async def _play(store: TrajectoryStore, url: str, token: str, episodes: int) -> None:
    unseen = round(_UNSEEN_SHARE * episodes)
    plan = itertools.chain(
        labelled.plan(episodes, _SEED, TRAIN_TASKS, EVALUATION),
        labelled.plan(unseen, _SEED, UNSEEN_TASKS, EVALUATION, proposed=False),
    )
    policy = LocalPolicy(Encoder(SMALL_POLICY), Sampling(max_new_tokens=MAX_NEW_TOKENS), seed=_SEED)
    try:
        async with FarmClient(url, token) as farm:
            todo = jobs(plan, policy, _SEED)
            await collecting.collect(farm, store, todo, _DEVICES, lambda done: None, EVALUATION)
    finally:
        policy.close()


async def _judge(store: TrajectoryStore) -> list[Judged]:
    judge = SmallJudge()
    episodes = [episode for episode in store if episode.valid]
    judged: list[Judged] = []
    for first in range(0, len(episodes), _AT_ONCE):
        some = episodes[first : first + _AT_ONCE]
        verdicts = await asyncio.gather(*(judge.judge(case_of(episode, store.frame)) for episode in some))
        judged += zip(some, verdicts, strict=True)
    await judge.close()
    return judged


# -- shares ------------------------------------------------------------------------------------------------


def _share(judged: Sequence[Judged], success: bool, value: float) -> Rate:
    """Of the true successes (or failures), those that the judge gave this value."""
    values = [verdict.value for episode, verdict in judged if episode.success == success]
    return share(values.count(value), len(values))


def _abstained(judged: Sequence[Judged]) -> Rate:
    return share(sum(verdict.value is None for _, verdict in judged), len(judged))


def _rate(of: Rate) -> float:
    return of.rate or 0.0


def _interval(of: Rate) -> str:
    return f"95 % interval {of.low:.1%} to {of.high:.1%}, n {of.n}"


def tables(judged: Sequence[Judged]) -> str:
    """Both tables of docs/tiny.md, in Markdown. Of a class without episodes nothing is known: a dash."""
    lines = [
        "| | episodes | successes passed | failures passed | successes failed | abstained |",
        "|---|---|---|---|---|---|",
    ]
    for group in GROUPS:
        part = [one for one in judged if group.holds(one[0])]
        shares = _share(part, True, 1.0), _share(part, False, 1.0), _share(part, True, 0.0), _abstained(part)
        lines.append(f"| {group.name} | {len(part)} | " + " | ".join(map(_percent, shares)) + " |")
    lines += ["", "| page | episodes | successes passed | failures passed | abstained |"]
    lines += ["|---|---|---|---|---|"]
    for part in _by_page(judged):
        rates = [_share(part, True, 1.0), _share(part, False, 1.0), _abstained(part)]
        cells = [f"`{_page(part[0][0])}`", str(len(part)), *map(_percent, rates)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _by_page(judged: Sequence[Judged]) -> list[list[Judged]]:
    """The policy's episodes on training pages; the pages that the judge knows best come first."""
    pages = [[one for one in judged if _seen(one[0]) and _page(one[0]) == page] for page in TRAIN_TASKS]
    return sorted(filter(None, pages), key=lambda part: _rate(_share(part, True, 1.0)), reverse=True)


def _percent(of: Rate) -> str:
    return "-" if of.rate is None else f"{100 * of.rate:.{1 if of.rate < 0.1 else 0}f} %"


if __name__ == "__main__":
    sys.exit(main())
