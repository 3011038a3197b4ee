"""Trajectories in the formats of others: training data out of our stores, demonstrations into them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from guiagent.formats import androidcontrol, atif, lerobot, osworld, parquet, sft, video
from guiagent.formats.entering import Entering, Reading
from guiagent.formats.leaving import Leaving, Wish


class Export(NamedTuple):
    """How a format is written, and the language of its replies where nobody names one; None if it holds
    actions, and the replies as they were sampled. With `steady`, it has no episodes whose screen changes its
    size."""

    write: Callable[[Iterable[Leaving], Path, Wish], None]
    dialect: str | None = None
    steady: bool = False


class Import(NamedTuple):
    """How a format is read, and the language of its replies where nobody names one."""

    read: Callable[[Path, Reading], Iterator[Entering]]
    dialect: str


EXPORTS = {
    "sft": Export(sft.write, "ui-tars"),
    "parquet": Export(parquet.write),
    "osworld": Export(osworld.write, "pyautogui"),
    "atif": Export(atif.write),
    "androidcontrol": Export(androidcontrol.write),
    "lerobot": Export(lerobot.write, steady=True),
    "video": Export(video.write),
}
IMPORTS = {
    "sft": Import(sft.read, "ui-tars"),
    "osworld": Import(osworld.read, "pyautogui"),
    "atif": Import(atif.read, "json"),
    "lerobot": Import(lerobot.read, "json"),
    "androidcontrol": Import(androidcontrol.read, "androidworld"),
}
