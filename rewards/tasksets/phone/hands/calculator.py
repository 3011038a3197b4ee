"""Calculator: a formula, key by key. Pure."""

import re
from collections.abc import Sequence

from guiagent.actions import Action
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import menu
from rewards.tasksets.phone.hands.scene import BACK, Scene

_KEYS = {"(": "parentheses", ")": "parentheses", "×": "multiply", "+": "plus", "−": "minus", "÷": "divide"}
_SHOWN = re.compile(r"[\d+−×÷^%()√.]+")
_WAYS = (
    (re.compile(r"Work out (\d+) times (\d+) "), "{}×{}"),
    (re.compile(r"Work out the sum of (\d+) and (\d+), multiplied by (\d+) "), "({}+{})×{}"),
)


def formula(instruction: str) -> str:
    """The formula that an instruction asks for. Raises ValueError if it asks for none."""
    for asked, written in _WAYS:
        if found := asked.match(instruction):
            return written.format(*found.groups())
    raise ValueError(f"no formula in {instruction!r}")


def act(scene: Scene, dues: Sequence[Due], state: State, wanted: str) -> Action:
    """Type the formula and press =; clear the history if it has a result too many."""
    if dues[0].now is not None:
        if scene.activity == ".HistoryActivity":
            return menu(scene, "Clear")
        return menu(scene, "History") if scene.activity == ".Calculator" else BACK
    if scene.activity != ".Calculator" or scene.find("History", "button"):
        return BACK
    shown = scene.that(lambda node: node.role == "text" and _SHOWN.fullmatch(node.name) is not None)
    typed = "" if shown is None or shown.name == "0" else shown.name
    if typed == wanted:
        return scene.tap_in("equals", role="button")
    if not wanted.startswith(typed):
        return scene.tap_in("clear", role="button")
    key = wanted[len(typed)]
    return scene.tap_in(_KEYS.get(key, key), role="button")
