"""The console of commands: it prints texts as they are, whoever wrote them."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from guiagent.cli.common.plain import plain_lines


class _Terminal(Console):
    """A console on which only its own styles move the cursor or colour anything.

    What a device, model or file put into a text, such as an escape sequence or a lone surrogate, which has no
    encoding, is shown as "?".
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain_lines(text), style, control)


def terminal(*, highlight: bool = True, soft_wrap: bool = False) -> Console:
    """A console on stdout: the brackets of `add [judge] to the recipe`, and `:x:`, are for the reader."""
    return _Terminal(markup=False, emoji=False, highlight=highlight, soft_wrap=soft_wrap)
