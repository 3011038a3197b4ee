"""What tasks in LibreOffice share: one document, open at the start or not, compared with a gold one."""

from collections.abc import Callable, Mapping
from typing import Any

from rewards.tasksets.desktop.scenario import (
    Play,
    Scenario,
    compared,
    edited,
    keys,
    open_file,
    opened,
    quiet,
    wait_for,
)

IDLE = quiet("soffice.bin")
# Control+s asks whether the format is kept, and Enter keeps it.
SAVED: Play = [keys("Control+s"), IDLE, keys("Enter"), IDLE]


# What LibreOffice sets anew whenever it saves slides, and on slides that it adds.
_FORMATS = (
    *("shape", "indent", "font_name", "font_size", "font_bold", "font_italic", "font_underline"),
    *("strike_through", "color_rgb", "alignment", "bullets", "background_color"),
)


def same_slides(path: str, gold: str) -> dict[str, Any]:
    """An evaluator: the slides have the texts and notes of the gold ones, in order; formats are free."""
    return compared("compare_pptx_files", path, gold, **{f"examine_{one}": False for one in _FORMATS})


def document(
    instruction: str,
    path: str,
    before: bytes,
    gold: bytes,
    check: Callable[[str], Mapping[str, Any]],
    misses: Mapping[str, bytes],
    moves: Play = (),
    *,
    is_open: bool = False,
) -> Scenario:
    """A task on one document. `moves` do it through the interface, with the document in front and unsaved.

    A document that is not open has to be opened first; tasks that begin so need no LibreOffice to be proved
    that nothing else solves them, which takes seconds instead of minutes.
    """
    ready: Play = [*([] if is_open else [open_file(path)]), wait_for(path.rsplit("/", 1)[-1]), IDLE]
    unsaved: Play = [*ready, keys("Escape"), *moves] if moves else []
    return edited(
        instruction,
        path,
        before,
        gold,
        check,
        misses,
        begin=[opened(path)] if is_open else [],
        solution=[*unsaved, *SAVED] if moves else [],
        unsaved=unsaved,
    )
