"""The taskset "lab": tasks of any length on made-to-order apps, split by what training has seen.

A name is KIND-LENGTH, then the split if it is not training's, then `+perturbed`: `reach-4`, `form-8@graphs`,
`both-16@themes+perturbed`. Kinds are "reach" (open a screen), "set" (switch something on), "form" (fill and
save), "find" (report what a screen says) and "both" (two things in order). The length is the number of inputs
that the shortest solution takes, 2 to 30, not counting the one that ends the episode.

Splits: training draws from 64 graphs and six themes; "graphs" has unseen graphs, "themes" unseen themes with
rows of other sizes, and "large" unseen graphs of 150 to 200 screens.

`reach-1@ladder` to `reach-10@ladder` are the rungs of a ladder: one app for all seeds, in which the screen of
a rung lies on the way to that of the next one. What they teach is how an app is laid out.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from msgspec.structs import replace

from guiagent.errors import UsageError
from guiagent.lab.goals import Goal, Visit
from guiagent.lab.world import MAX_SCREENS, AppSpec
from rewards.tasksets.lab.draws import KINDS, Draw, Kind, draw
from rewards.tasksets.lab.task import LabTask
from rewards.tasksets.lab.wording import instruction

LENGTHS = (2, 4, 8, 16, 30)
SPLITS = ("graphs", "themes", "large")
_SHORTEST = {"reach": 2, "set": 2, "find": 2, "form": 4, "both": 4}
_LADDER = "ladder"
_NAME = re.compile(rf"({'|'.join(KINDS)})-(\d+)(?:@({'|'.join((*SPLITS, _LADDER))}))?(\+perturbed)?")
_GRAPHS = range(64)  # of training
_UNSEEN_GRAPHS = range(10_000, 2**30)
_THEMES = ("paper", "mint", "slate", "rose", "sand", "grape")
_UNSEEN_THEMES = ("neon", "brick", "frost")
_PERTURBED = {"popups": 0.1, "moves": 0.3, "lag": 0.1}
_HIGHEST = 10  # rung
_LADDER_APP = AppSpec(graph=3, screens=24, depth=_HIGHEST)  # no rung needs a scroll on the way
LADDER_TASKS = tuple(f"reach-{length}@{_LADDER}" for length in (1, 2, 3, 4, 6, 8, 10))
TRAIN_TASKS = tuple(f"{kind}-{length}" for kind in KINDS for length in LENGTHS if length >= _SHORTEST[kind])


@dataclass(frozen=True)
class Lab:
    """The taskset "lab". With `oracle`, observations carry the probes "oracle", "candidates" and "labels"."""

    oracle: bool = False

    @property
    def names(self) -> Sequence[str]:
        """The names of usual lengths; `task` takes any length."""
        endings = ("", *(f"@{split}" for split in SPLITS))
        named = (*(f"{name}{ending}" for ending in endings for name in TRAIN_TASKS), *LADDER_TASKS)
        return tuple(name + perturbed for perturbed in ("", "+perturbed") for name in named)

    def task(self, name: str, seed: int) -> LabTask:
        """The task `name` with `seed`. Raises UsageError for a name of another form."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise UsageError(
                f"no lab task {name!r}: a name is KIND-LENGTH, such as reach-4, maybe with @graphs, @themes, "
                f"@large or @ladder, and +perturbed; kinds: {', '.join(KINDS)}"
            )
        kind, length, split, perturbed = match.groups()
        shortest, longest = _SHORTEST[kind], max(LENGTHS)
        if split == _LADDER:
            if kind != "reach" or not 1 <= int(length) <= _HIGHEST:
                raise UsageError(
                    f"{name}: the ladder has the rungs reach-1@ladder to reach-{_HIGHEST}@ladder"
                )
        elif not shortest <= int(length) <= longest:
            raise UsageError(f"{name}: a {kind!r} task takes {shortest} to {longest} actions")
        drawn = _drawn(kind, int(length), split or "", bool(perturbed), seed)
        words = instruction(drawn, random.Random(f"words/{seed}"))
        return LabTask(name, seed, drawn.app, drawn.goal, words, int(length), self.oracle)


@lru_cache(maxsize=4096)  # the episodes of a group have one task
def _drawn(kind: Kind, length: int, split: str, perturbed: bool, seed: int) -> Draw:
    rng = random.Random(f"{kind}/{length}/{split}/{seed}")
    perturbing = _PERTURBED if perturbed else {}
    if split == _LADDER:
        app = replace(_LADDER_APP, theme=rng.choice(_THEMES), **perturbing)
        return Draw(app, Goal((Visit(length),)))  # a graph's first screens are the planted chain
    depth = max(2, {"form": length - 4, "both": length // 2}.get(kind, length - 1))
    large = split == "large"
    app = AppSpec(
        graph=rng.choice(_UNSEEN_GRAPHS if split in ("graphs", "large") else _GRAPHS),
        screens=rng.randint(150, MAX_SCREENS) if large else min(2 * depth + 6, MAX_SCREENS),
        depth=depth,
        rows=rng.choice((4, 5, 8)) if split == "themes" else 6,
        theme=rng.choice(_UNSEEN_THEMES if split == "themes" else _THEMES),
        **perturbing,
    )
    return draw(kind, length, app, rng)
