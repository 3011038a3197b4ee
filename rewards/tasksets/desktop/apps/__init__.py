"""The templates of the suite `desktop`, a file an application, and those over several."""

from rewards.tasksets.desktop.apps import (
    calc,
    chromium,
    editor,
    flows,
    folders,
    gimp,
    impossible,
    impress,
    terminal,
    thunderbird,
    vlc,
    writer,
)
from rewards.tasksets.desktop.scenario import Template

_MODULES = (
    folders,
    terminal,
    editor,
    calc,
    writer,
    impress,
    gimp,
    vlc,
    chromium,
    thunderbird,
    flows,
    impossible,
)
TEMPLATES: dict[str, Template] = {one.name: one for module in _MODULES for one in module.TEMPLATES}
