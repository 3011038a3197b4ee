"""Progress of long work: one live line per stage on a terminal, a plain line every few seconds elsewhere."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from training.sft import train as sft

_PLAIN_INTERVAL_S = 5.0


class StageLine:
    """The progress line of one stage of a command. Its last text stays.

    with StageLine(console, "2/4", "train") as line:
        line.update("step 3/200")
    """

    def __init__(self, console: Console, number: str, name: str) -> None:
        self._console = console
        self._head = f"[{number}] {name:<9}"
        self._text = ""
        self._said: str | None = None  # the last plain line
        self._began = self._printed = time.monotonic()
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def update(self, text: str) -> None:
        """Show a new text: at once on a terminal, at most every five seconds elsewhere."""
        self._text = text
        if self._live:
            self._live.update(self._line())
        elif time.monotonic() - self._printed > _PLAIN_INTERVAL_S:
            self._print()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.update(self._line())
            self._live.stop()
        elif self._text != self._said:
            self._print()

    def _line(self) -> Text:
        seconds = int(time.monotonic() - self._began)
        return Text(
            f"{self._head} {self._text}  {seconds // 60}:{seconds % 60:02d}",
            no_wrap=True,
            overflow="ellipsis",
        )

    def _print(self) -> None:
        self._printed, self._said = time.monotonic(), self._text
        self._console.print(self._line(), soft_wrap=True)


def fit_line(progress: "sft.Progress") -> str:
    """Format one optimiser step as one line."""
    p = progress
    held_out = "" if p.held_out_loss is None else f"  held out {p.held_out_loss:.3f}"
    return f"step {p.step:,} of {p.steps:,}  loss {p.loss:.3f}{held_out}  {p.tokens_per_second:,.0f} tokens/s"
