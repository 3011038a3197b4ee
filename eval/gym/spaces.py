"""The spaces of a Gymnasium environment: a screen to see, and an action that any learner can sample.

A sampled action is a word, one or two places as shares of the screen, and a text; what the word does not need
is ignored. Agents that know `guiagent.actions` may pass those instead.
"""

import string
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from eval.frames import Frame, pixel
from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    LongPress,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.errors import UsageError

WORDS = (
    *("click", "double_click", "right_click", "drag", "scroll_up", "scroll_down", "type", "enter", "wait"),
    *("long_press", "swipe", "back", "answer", "done"),
)
MAX_TEXT = 256


def action_space() -> spaces.Dict:
    return spaces.Dict(
        {
            "word": spaces.Discrete(len(WORDS)),
            "at": spaces.Box(0.0, 1.0, (2,), np.float32),
            "to": spaces.Box(0.0, 1.0, (2,), np.float32),
            "text": spaces.Text(MAX_TEXT, min_length=0, charset=string.printable),
        }
    )


def screen_space(width: int, height: int) -> spaces.Space[Frame]:
    """Frames as uint8 [height, width, 3], RGB."""
    return cast("spaces.Space[Frame]", spaces.Box(0, 255, (height, width, 3), np.uint8))


def actions_of(given: Any, size: tuple[int, int]) -> Sequence[Action]:
    """The actions of one step: a sample of `action_space`, an action of ours, or several.

    Raises UsageError for anything else.
    """
    if isinstance(given, Mapping):
        return [_action(given, size)]
    return list(given) if isinstance(given, list | tuple) else [given]


def _action(sample: Mapping[str, Any], size: tuple[int, int]) -> Action:
    try:
        word, text = WORDS[int(sample["word"])], str(sample["text"])
        (x, y), (x2, y2) = (_pixel(sample[name], size) for name in ("at", "to"))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UsageError(f"no action of this environment's action space: {error}") from None
    half = size[1] // 2
    made: dict[str, Action] = {
        "click": Click(x=x, y=y),
        "double_click": Click(x=x, y=y, count=2),
        "right_click": Click(x=x, y=y, button="right"),
        "drag": Drag(path=((x, y), (x2, y2))),
        "scroll_up": Scroll(x=x, y=y, dy=-half),
        "scroll_down": Scroll(x=x, y=y, dy=half),
        "type": Type(text=text),
        "enter": KeyChord(keys=("Enter",)),
        "wait": Wait(),
        "long_press": LongPress(x=x, y=y),
        "swipe": Swipe(x1=x, y1=y, x2=x2, y2=y2),
        "back": PressButton(button="back"),
        "answer": Answer(text=text),
        "done": Done(),
    }
    return made[word]


def _pixel(share: Any, size: tuple[int, int]) -> tuple[int, int]:
    return pixel(float(share[0]), size[0]), pixel(float(share[1]), size[1])
