"""The actions that a peer learns from, in files: what stood before each of them, and what was sampled.

Written by `tests.bench.packed`, so that a peer computes the very tokens and screenshots that the learner
does. The standard library is enough to read them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_ACTIONS, _SCREENS = "actions.json", "screens"


class Action(NamedTuple):
    """A sample of its own: the tokens before an action, the screenshots in them in order, and its tokens."""

    prompt: list[int]
    screens: list[str]
    completion: list[int]


def write(folder: Path, updates: Iterable[Sequence[Action]], screens: Mapping[str, bytes]) -> None:
    """Write the actions of each optimiser step, and the screenshots as PNG by their names."""
    (folder / _ACTIONS).write_text(json.dumps([list(update) for update in updates]))
    for name, data in screens.items():
        path = screen(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def read(folder: Path) -> list[list[Action]]:
    """The actions of each optimiser step."""
    return [[Action(*one) for one in update] for update in json.loads((folder / _ACTIONS).read_text())]


def screen(folder: Path, name: str) -> Path:
    return folder / _SCREENS / f"{name}.png"
