"""A folder of grounding items in ScreenSpot's format: pictures of three sizes, boxes of known shares."""

import json
from pathlib import Path
from typing import Any

from PIL import Image

SIZES = ((640, 400), (1920, 1080), (3840, 2160))


def row(picture: str, box: tuple[float, ...], n: int = 0, **more: Any) -> dict[str, Any]:
    """One item; every second is an icon, sources take turns."""
    return {
        "img_filename": picture,
        "bbox": list(box),
        "instruction": f"press {n}",
        "data_type": ("text", "icon")[n % 2],
        "data_source": ("windows", "ios", "shop")[n % 3],
    } | more


def picture(folder: Path, name: str, size: tuple[int, int]) -> None:
    (folder / "screenspot_imgs").mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (40, 90, 120)).save(folder / "screenspot_imgs" / name)


def screenspot(folder: Path, per_picture: int = 4) -> Path:
    """Items whose boxes are the quarter of their picture at its bottom right; return the folder."""
    rows = []
    for width, height in SIZES:
        name = f"screen-{width}.png"
        picture(folder, name, (width, height))
        box = (width / 2 + 1.5, height / 2 + 1.5, width / 2 - 1.5, height / 2 - 1.5)
        rows += [row(name, box, len(rows) + n) for n in range(per_picture)]
    (folder / "screenspot_web.json").write_text(json.dumps(rows))
    return folder
