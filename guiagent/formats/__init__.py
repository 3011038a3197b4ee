"""Trajectories in the formats of others: training data out of our stores, demonstrations into them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from guiagent.formats import androidcontrol, atif, osworld, parquet, sft
from guiagent.formats.entering import Entering, Reading
from guiagent.formats.leaving import Leaving, Wish


class Format(NamedTuple):
    """A format: how it is written and read, and the language of its replies where nobody names one."""

    write: Callable[[Iterable[Leaving], Path, Wish], None] | None
    read: Callable[[Path, Reading], Iterator[Entering]] | None
    dialect: str
    in_words: bool = True  # whether its files hold the words of a dialect; else actions and the replies' own


FORMATS = {
    "sft": Format(sft.write, sft.read, "ui-tars"),
    "parquet": Format(parquet.write, None, "json", in_words=False),
    "osworld": Format(osworld.write, osworld.read, "pyautogui"),
    "atif": Format(atif.write, atif.read, "json", in_words=False),
    "androidcontrol": Format(None, androidcontrol.read, "androidworld"),
}
EXPORTS = tuple(name for name, format in FORMATS.items() if format.write)
IMPORTS = tuple(name for name, format in FORMATS.items() if format.read)
