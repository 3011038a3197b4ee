"""Grows the world of an app from its specification."""

import random
from functools import lru_cache

from guiagent.errors import UsageError
from guiagent.lab import words
from guiagent.lab.world import AppSpec, Element, Screen, World

_FEWEST, _MOST = 2, 5  # controls on a screen besides its links
_FORM_SHARE = 0.3  # of the screens
_SHORTCUTS = 0.5  # links per screen that only lead back or aside


@lru_cache(maxsize=512)
def grow(spec: AppSpec) -> World:
    """Return the app of a specification.

    Screens form a tree that is exactly `spec.depth` links deep, one chain of it planted, and have shortcuts
    that bring no screen nearer to the first. So whatever screens are drawn, a task of any length up to the
    depth can be found. About a third of the screens are forms with a button that saves them.

    Raises:
        UsageError: the specification asks for more depth than it has screens.
    """
    if spec.depth >= spec.screens:
        raise UsageError(
            f"an app of {spec.screens} screens cannot be {spec.depth} links deep: "
            f"give it at least {spec.depth + 1} screens"
        )
    rng = random.Random(f"{spec.graph}/{spec.screens}/{spec.depth}")
    parents, depths = _tree(spec, rng)
    titles = _titles(spec.screens, rng)
    links = [
        [child for child, parent in enumerate(parents) if parent == screen] for screen in range(spec.screens)
    ]
    for screen in range(spec.screens):
        if rng.random() < _SHORTCUTS:
            near = [n for n in range(spec.screens) if n != screen and depths[n] <= depths[screen]]
            links[screen] += [n for n in rng.sample(near, min(1, len(near))) if n not in links[screen]]
    return World(
        tuple(
            Screen(titles[screen], _rows(screen, links[screen], titles, rng), parents[screen])
            for screen in range(spec.screens)
        )
    )


def _tree(spec: AppSpec, rng: random.Random) -> tuple[list[int], list[int]]:
    """Parents and depths: a chain of `spec.depth` links, and every other screen on one that is less deep."""
    parents, depths = [-1], [0]
    for screen in range(1, spec.screens):
        parent = (
            screen - 1
            if screen <= spec.depth
            else rng.choice([other for other, depth in enumerate(depths) if depth < spec.depth])
        )
        parents.append(parent)
        depths.append(depths[parent] + 1)
    return parents, depths


def _titles(count: int, rng: random.Random) -> list[str]:
    pairs = [f"{quality} {subject.lower()}" for quality in words.QUALITIES for subject in words.SUBJECTS]
    plain = list(words.SUBJECTS)
    rng.shuffle(plain)
    return (plain + rng.sample(pairs, max(0, count - len(plain))))[:count]


def _rows(screen: int, links: list[int], titles: list[str], rng: random.Random) -> tuple[Element, ...]:
    form = rng.random() < _FORM_SHARE
    drawn: list[tuple[str, str, int, str]] = [("link", titles[to], to, "") for to in links]
    count = rng.randint(_FEWEST, _MOST)
    if form:
        drawn += [("field", label, -1, "") for label in rng.sample(words.FIELDS, count)]
    else:
        switches = rng.randint(1, count)
        drawn += [("toggle", label, -1, "") for label in rng.sample(words.SWITCHES, switches)]
        drawn += [
            ("fact", label, -1, str(rng.randint(100, 999)))
            for label in rng.sample(words.FACTS, count - switches)
        ]
    rng.shuffle(drawn)
    if form:
        drawn.append(("save", "Save", -1, ""))
    return tuple(
        Element(f"{screen}.{index}", kind, label, to, value)  # type: ignore[arg-type]
        for index, (kind, label, to, value) in enumerate(drawn)
    )
