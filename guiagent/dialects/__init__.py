"""Action languages of models: one file each, text <-> `Action`, and the words that ask for it."""

from collections.abc import Sequence
from typing import Protocol

from guiagent.actions import Action
from guiagent.dialects.ui_tars import UiTars


class Dialect(Protocol):
    """One model family's action language. Sizes are (width, height) of the frame the device returned."""

    name: str

    def prompt(self, instruction: str) -> str:
        """The text of the first user turn, which the first screenshot follows."""
        ...

    def parse(self, text: str, size: tuple[int, int]) -> list[Action]:
        """Actions in device pixels; raises `DialectError`, and nothing else, on any other text."""
        ...

    def render(self, actions: Sequence[Action], size: tuple[int, int]) -> str:
        """The text a model would emit for `actions`; `parse(render(a)) == a` where the dialect can say it."""
        ...


DIALECTS: dict[str, Dialect] = {"ui-tars": UiTars()}
