"""Tasks in GIMP."""

from collections.abc import Mapping
from random import Random
from typing import Any

from PIL import Image, ImageOps

from rewards.tasksets.desktop.files import picture, png
from rewards.tasksets.desktop.scenario import (
    HOME,
    Scenario,
    Template,
    compared,
    edited,
    launched,
    ruled,
    shell,
    window,
)

_PICTURE = f"{HOME}/Pictures/photo.png"


def _alike(gold: str) -> dict[str, Any]:
    return compared("check_structure_sim_with_threshold", _PICTURE, gold, ssim_threshold=0.95)


def _photo(
    instruction: str,
    image: Image.Image,
    gold: Image.Image,
    misses: Mapping[str, Image.Image],
    *,
    is_open: bool = False,
) -> Scenario:
    """A task on photo.png; the solution lays the gold picture down."""
    return edited(
        f"{instruction} Overwrite ~/Pictures/photo.png{', which is open in GIMP' if is_open else ''}.",
        _PICTURE,
        png(image),
        png(gold),
        _alike,
        {name: png(miss) for name, miss in misses.items()},
        begin=[launched("gimp", "--no-splash", _PICTURE), window("photo")] if is_open else [],
    )


def _mirror(random: Random) -> Scenario:
    image = picture(random, (320, 200))
    return _photo(
        "Flip the picture horizontally: left and right change places.",
        image,
        ImageOps.mirror(image),
        {"upside down": ImageOps.flip(image), "turned round": image.rotate(180)},
        is_open=True,
    )


def _scale(random: Random) -> Scenario:
    image, width = picture(random, (320, 200)), random.choice((160, 240, 480))
    size = (width, width * 200 // 320)
    return _photo(
        f"Scale the picture to a width of {width} pixels, in proportion.",
        image,
        image.resize(size, Image.Resampling.BICUBIC),
        {"cropped": image.crop((0, 0, *size)), "out of proportion": image.resize((width, 200))},
        is_open=True,
    )


def _crop(random: Random) -> Scenario:
    image = picture(random, (320, 200))
    left, top = random.randrange(10, 60), random.randrange(10, 60)
    box = (left, top, left + 200, top + 120)
    return _photo(
        f"Crop ~/Pictures/photo.png with GIMP to the part that is 200 pixels wide and 120 high, whose upper "
        f"left corner is {left} pixels from the left and {top} from the top.",
        image,
        image.crop(box),
        {
            "from the corner": image.crop((0, 0, 200, 120)),
            "scaled": image.resize((200, 120)),
        },
    )


def _undo_steps(random: Random) -> Scenario:
    levels = random.choice((20, 50, 80, 120))
    rc = f"{HOME}/.config/GIMP/2.10/gimprc"

    def write(value: int) -> str:
        return f"pkill gimp; mkdir -p {HOME}/.config/GIMP/2.10; echo '(undo-levels {value})' >> {rc}"

    return Scenario(
        f"Set GIMP's minimal number of undo levels to {levels}.",
        [launched("gimp", "--no-splash"), window("GNU Image")],
        ruled(
            "check_config_status",
            {"type": "gimp_config_file", "file_name": "gimprc", "dest": "gimprc"},
            key="undo-levels",
            value=str(levels),
        ),
        [shell(write(levels))],
        {"another number": [shell(write(levels + 1))], "set back": [shell(write(levels)), shell(write(5))]},
    )


_A = ("gimp",)
TEMPLATES = (
    Template("gimp-mirror", _A, _mirror),
    Template("gimp-scale", _A, _scale),
    Template("gimp-undo-levels", _A, _undo_steps),
    Template("gimp-crop", _A, _crop),
)
