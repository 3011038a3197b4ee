"""Action languages of models, one file each: the prompt, and conversion between text and `Action`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from guiagent.actions import Action
from guiagent.dialects.apis.anthropic import anthropic_computer
from guiagent.dialects.apis.openai import openai_computer
from guiagent.dialects.apis.plain_json import plain_json
from guiagent.dialects.benchmarks.androidworld import androidworld
from guiagent.dialects.benchmarks.browsergym import browsergym
from guiagent.dialects.benchmarks.miniwob import miniwob
from guiagent.dialects.benchmarks.osworld import computer_13, pyautogui_code
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.models.evocua import evocua
from guiagent.dialects.models.fara import fara
from guiagent.dialects.models.gelab import gelab_zero
from guiagent.dialects.models.mai_ui import mai_ui
from guiagent.dialects.models.ui_venus import ui_venus, ui_venus_ground
from guiagent.dialects.qwen import qwen_tool
from guiagent.dialects.ui_tars import UiTars
from guiagent.errors import UsageError, nearest

EVIDENCE = "+evidence"  # after a dialect's name: its prompt also asks for the screens that prove the outcome


class Dialect(Protocol):
    """One model family's action language. Sizes are (width, height) of the frame the device returned."""

    space: CoordinateSpace  # the units of its coordinates, and how pictures are resized if it matters

    @property
    def name(self) -> str: ...

    @property
    def system(self) -> str:
        """The text of the system turn; empty if the family was trained without one."""
        ...

    def prompt(self, instruction: str) -> str:
        """The text of the first user turn, before the first screenshot."""
        ...

    def parse(self, text: str, size: tuple[int, int]) -> list[Action]:
        """Parse actions, in device pixels. Raises `DialectError`, and nothing else, for any other text."""
        ...

    def render(self, actions: Sequence[Action], size: tuple[int, int]) -> str:
        """The text a model would emit for `actions`; `parse(render(a)) == a` if the dialect can express a."""
        ...


class _Evident(Protocol):
    """Makes a dialect whose prompt, with `evidence`, asks for the screens that prove the outcome."""

    def __call__(self, *, evidence: bool) -> Dialect: ...


_NORM999 = CoordinateSpace("norm999")
EVIDENT: dict[str, _Evident] = {
    "ui-tars": UiTars,
    "ui-tars-1.0": partial(UiTars, space=CoordinateSpace("norm1000")),  # and Doubao's
    "qwen2.5-computer": partial(qwen_tool, "computer_use", CoordinateSpace.resized(28)),
    "qwen2.5-mobile": partial(qwen_tool, "mobile_use", CoordinateSpace.resized(28)),  # and GUI-Owl's
    "qwen3-computer": partial(qwen_tool, "computer_use", _NORM999),
    "qwen3-mobile": partial(qwen_tool, "mobile_use", _NORM999),  # and GUI-Owl 1.5's
    "qwen3.5-computer": partial(qwen_tool, "computer_use", _NORM999, "xml"),
    "qwen3.5-mobile": partial(qwen_tool, "mobile_use", _NORM999, "xml"),
}
OTHERS: dict[str, Callable[[], Dialect]] = {  # without a word for evidence
    "json": plain_json,
    "openai-computer": openai_computer,
    "anthropic-20241022": partial(anthropic_computer, "20241022"),
    "anthropic-20250124": partial(anthropic_computer, "20250124"),
    "anthropic-20251124": partial(anthropic_computer, "20251124"),
    "computer-13": computer_13,
    "pyautogui": pyautogui_code,
    "androidworld": androidworld,
    "browsergym": browsergym,
    "miniwob": miniwob,
    "evocua": evocua,
    "fara": fara,
    "gelab-zero": gelab_zero,
    "mai-ui": mai_ui,
    "ui-venus-1.5": partial(ui_venus, "1.5"),
    "ui-venus-2": partial(ui_venus, "2"),
    "ui-venus-ground": ui_venus_ground,
}
DIALECTS = (*EVIDENT, *OTHERS)


def find_dialect(name: str) -> Dialect:
    """Return a new dialect object, whose `space` the caller may set.

    `NAME+evidence` is the dialect NAME with words in its prompt for `Done(evidence=...)`, which judges of
    evidence need; the dialects in `EVIDENT` can parse and render them. Raises UsageError for an unknown name.
    """
    base = name.removesuffix(EVIDENCE)
    if base in EVIDENT:
        return EVIDENT[base](evidence=name != base)
    if base in OTHERS:
        if name != base:
            raise UsageError(f"the dialect {base} has no word for evidence; these have: {', '.join(EVIDENT)}")
        return OTHERS[base]()
    known = f": there are {', '.join(DIALECTS)}; the first {len(EVIDENT)} also with {EVIDENCE}"
    near = "" if "+" in base else nearest(base, DIALECTS)  # another addition is no misspelt name
    raise UsageError(f"no dialect {name!r}{near or known}")
