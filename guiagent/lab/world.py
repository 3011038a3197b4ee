"""The world of an app: its screens, their controls, and the specification it grows from."""

from typing import Annotated, Literal

import msgspec

Kind = Literal["link", "toggle", "field", "save", "fact"]
MAX_SCREENS = 200


class AppSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an app is made from: the same specification always gives the same app.

    `graph` is the seed of its screens. `popups`, `moves` and `lag` are chances that perturb a tap: a dialog
    comes up, the rows of the next screen are in another order, the effect waits for the next action.
    """

    graph: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    screens: Annotated[int, msgspec.Meta(ge=5, le=MAX_SCREENS)] = 12
    depth: Annotated[int, msgspec.Meta(ge=1, le=40)] = 4  # of links from the first screen to the farthest
    rows: Annotated[int, msgspec.Meta(ge=3, le=12)] = 6  # of a screen that fit on the display
    theme: Annotated[str, msgspec.Meta(max_length=32)] = "paper"
    popups: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    moves: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    lag: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0


class Element(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of a screen. `to` is where a link leads; `value` what a fact says."""

    key: str  # unique in the app: screen and row
    kind: Kind
    label: str
    to: int = -1
    value: str = ""


class Screen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of rows, maybe longer than the display. `up` is the screen that Back leads to; -1: none."""

    title: str
    rows: tuple[Element, ...]
    up: int = -1


class World(msgspec.Struct, frozen=True):
    """All screens of an app; an episode begins on the first."""

    screens: tuple[Screen, ...]

    def row(self, key: str) -> tuple[int, int]:
        """Return the screen and the index of the row called `key`. Raises KeyError if there is none."""
        screen, _, index = key.partition(".")
        if screen.isdecimal() and index.isdecimal() and int(screen) < len(self.screens):
            place = int(screen), int(index)
            if place[1] < len(self.screens[place[0]].rows):
                return place
        raise KeyError(key)

    def element(self, key: str) -> Element:
        screen, index = self.row(key)
        return self.screens[screen].rows[index]
