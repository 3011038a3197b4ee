"""The actions of `guiagent.actions` as methods, for frameworks that offer an object's methods to a model.

Docstrings and signatures are what a model is told of them, in the form that frameworks read: Google's.
"""

import re
from abc import ABC, abstractmethod
from typing import Any, Literal

from pydantic import ValidationError

from guiagent.actions import ACTION, Action
from guiagent.errors import UsageError, first_error
from guiagent.nodes import centre, described, is_control, visible
from guiagent.types import Observation

_MOST_ELEMENTS = 200
_TAG = re.compile(r"<(?=[|/\w])")


class ActionTools(ABC):
    """A screen that a model acts on by calling these methods; each is the action of its name.

    What is no action raises UsageError, in one line, and nothing was done.
    """

    @abstractmethod
    def _do(self, action: Action) -> Any:
        """Carry the action out and return what the model is to see."""
        ...

    def click(
        self, x: int, y: int, button: Literal["left", "middle", "right"] = "left", count: int = 1
    ) -> Any:
        """Click or tap at a point.

        Args:
            x: Pixels from the left edge of the screen.
            y: Pixels from the top edge of the screen.
            button: Which mouse button: left, middle or right.
            count: 1 for a click, 2 for a double click.
        """
        return self._act(type="click", x=x, y=y, button=button, count=count)

    def move(self, x: int, y: int) -> Any:
        """Move the pointer to a point.

        Args:
            x: Pixels from the left edge of the screen.
            y: Pixels from the top edge of the screen.
        """
        return self._act(type="move", x=x, y=y)

    def long_press(self, x: int, y: int, ms: int = 800) -> Any:
        """Hold a finger or the left button on a point.

        Args:
            x: Pixels from the left edge of the screen.
            y: Pixels from the top edge of the screen.
            ms: How long, in milliseconds.
        """
        return self._act(type="long_press", x=x, y=y, ms=ms)

    def drag(self, x1: int, y1: int, x2: int, y2: int) -> Any:
        """Press the left button at one point, move to another one, and let go.

        Args:
            x1: Pixels from the left edge, where it begins.
            y1: Pixels from the top edge, where it begins.
            x2: Pixels from the left edge, where it ends.
            y2: Pixels from the top edge, where it ends.
        """
        return self._act(type="drag", path=((x1, y1), (x2, y2)))

    def swipe(self, x1: int, y1: int, x2: int, y2: int, ms: int = 300) -> Any:
        """Swipe with a finger from one point to another one.

        Args:
            x1: Pixels from the left edge, where it begins.
            y1: Pixels from the top edge, where it begins.
            x2: Pixels from the left edge, where it ends.
            y2: Pixels from the top edge, where it ends.
            ms: How long it takes, in milliseconds.
        """
        return self._act(type="swipe", x1=x1, y1=y1, x2=x2, y2=y2, ms=ms)

    def scroll(self, x: int, y: int, dx: int = 0, dy: int = 0) -> Any:
        """Scroll at a point.

        Args:
            x: Pixels from the left edge of the screen.
            y: Pixels from the top edge of the screen.
            dx: Pixels to scroll to the right; to the left if negative.
            dy: Pixels to scroll down; up if negative.
        """
        return self._act(type="scroll", x=x, y=y, dx=dx, dy=dy)

    def type(self, text: str, clear: bool = False, submit: bool = False) -> Any:
        """Type into what has the focus.

        Args:
            text: What to type.
            clear: Empty the field first.
            submit: Press Enter at the end.
        """
        return self._act(type="type", text=text, clear=clear, submit=submit)

    def key(self, keys: list[str]) -> Any:
        """Press keys together.

        Args:
            keys: Their names as in browsers, such as Control and a, or Enter alone.
        """
        return self._act(type="key", keys=keys)

    def press_button(self, button: str) -> Any:
        """Press a button of a phone, or go back or forward in a browser.

        Args:
            button: back, forward, home, recents, menu, enter, power, volume_up or volume_down.
        """
        return self._act(type="press_button", button=button)

    def open(self, target: str) -> Any:
        """Open a page or an app.

        Args:
            target: The address of the page, or the name of the app.
        """
        return self._act(type="open", target=target)

    def wait(self, ms: int = 1000) -> Any:
        """Wait, and look again.

        Args:
            ms: How long, in milliseconds.
        """
        return self._act(type="wait", ms=ms)

    def answer(self, text: str) -> Any:
        """Answer what the task asked for. This ends the task.

        Args:
            text: The answer, and nothing else.
        """
        return self._act(type="answer", text=text)

    def done(self, status: Literal["success", "failure", "infeasible"] = "success") -> Any:
        """Say that the task is done, or cannot be. This ends the task.

        Args:
            status: success, failure, or infeasible for what nobody could do.
        """
        return self._act(type="done", status=status)

    def _act(self, **told: Any) -> Any:
        try:
            action = ACTION.validate_python(told)
        except ValidationError as error:
            raise UsageError(f"{told['type']}: {first_error(error.errors(), skip=1)}") from None
        return self._do(action)


def elements(shown: Observation) -> str:
    """The elements of the screen for a model that sees no pictures: a line each, with the point to click."""
    lines = list[str]()
    for node in shown.tree or []:
        box = visible(node.box, shown.width, shown.height)
        if box is None or not (node.name or node.value or is_control(node)):
            continue
        x, y = centre(box)
        value = f" = {node.value[:200]!r}" if node.value and node.name else ""
        states = f" ({', '.join(node.states)})" if node.states else ""
        lines.append(f"{described(node)}{value}{states} at x={x} y={y}")
    beyond = [f"and {len(lines) - _MOST_ELEMENTS} more"] if len(lines) > _MOST_ELEMENTS else []
    return untagged("\n".join(lines[:_MOST_ELEMENTS] + beyond))


def untagged(text: str) -> str:
    """A text of a page or device that cannot write the special tokens of a chat template, such as <|im_end|>:
    most models spell theirs in angle brackets."""
    return _TAG.sub("‹", text)
