"""The taskset `desktop`: real applications on our desktops, as generated task files of OSWorld's format."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from guiagent.errors import UsageError
from rewards.tasksets.desktop.apps import TEMPLATES
from rewards.tasksets.desktop.scenario import HOST, document
from rewards.tasksets.desktop.task import DesktopTask
from rewards.tasksets.osworld.schema import read

__all__ = ["PROGRAMS", "TEMPLATES", "DesktopTask", "DesktopTasks", "export"]

PROGRAMS = {
    "chrome": "chromium",
    "editor": "mousepad",
    "gimp": "gimp",
    "libreoffice_calc": "localc",
    "libreoffice_impress": "loimpress",
    "libreoffice_writer": "lowriter",
    "os": "xterm",
    "thunderbird": "thunderbird",
    "vlc": "vlc",
}
"""The program of a template's first application; a system without it cannot play the task."""


class DesktopTasks:
    """Every template with a seed of its own kind: instruction, files and goal are drawn from it."""

    def __init__(self, oracle: bool = False) -> None:
        """`oracle` changes nothing: solutions are played by the task itself, not read by a policy."""

    @property
    def names(self) -> Sequence[str]:
        return tuple(TEMPLATES)

    def task(self, name: str, seed: int) -> DesktopTask:
        template = TEMPLATES.get(name)
        if template is None:
            raise UsageError(f"there is no desktop task {name!r}")
        scenario = template.make(Random(f"{name}/{seed}"))
        return DesktopTask(read(document(template, scenario), name), scenario, seed)


def export(folder: Path, seed: int) -> list[Path]:
    """Write every task with a seed as a file of OSWorld's, what it names below `assets`; return the files.

    `guiagent eval --suite osworld:FOLDER`, or any runner of OSWorld's files, plays them.
    """
    written = []
    for name, template in TEMPLATES.items():
        scenario = template.make(Random(f"{name}/{seed}"))
        place = folder / template.apps[0] / f"{name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        text = document(template, scenario).replace(f"{HOST}/".encode(), f"{HOST}/{name}/".encode())
        place.write_bytes(text)
        written.append(place)
        for file, data in scenario.files.items():
            asset = folder / "assets" / HOST / name / file
            asset.parent.mkdir(parents=True, exist_ok=True)
            asset.write_bytes(data)
    return written
