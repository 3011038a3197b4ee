"""Items of grounding benchmarks: a picture, an instruction, and the box of the element that is meant.

Reads and writes the files of ScreenSpot (Cheng et al. 2024, arXiv:2401.10935), ScreenSpot-v2 (Wu et al. 2024,
arXiv:2410.23218) and ScreenSpot-Pro (Li et al. 2025, arXiv:2504.07981): JSON lists of objects with
"img_filename", "instruction" and "bbox", which is [left, top, width, height] beside "data_type" and
"data_source", and [left, top, right, bottom] beside Pro's "ui_type" and "platform". All of it is taken for
hostile: names stay inside the folder, boxes inside their picture, sizes within bounds.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import xxhash
from PIL import Image

from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.storage.atomic import write_file
from rewards.tasksets.task_files import content

Element = Literal["text", "icon"]
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels; the edges belong to it
MAX_ITEMS = 20_000
MAX_SIDE = 16_383  # of a picture in pixels: what an action can name
_MAX_PIXELS = 64 * 10**6
_MAX_FILE = 64 * 2**20  # bytes of a JSON file or a picture
_MAX_TEXT = 2000  # characters of an instruction
_PICTURES = ("screenspot_imgs", "screenspotv2_image", "images", ".")  # folders, as published
_OF_SOURCE = {"windows": "desktop", "macos": "desktop", "linux": "desktop", "ios": "mobile"}
_OF_SOURCE |= {"android": "mobile", "phone": "mobile", "lab": "mobile"}
_CLASSES = ((1.5e6, "up to 1.5 MP"), (5e6, "1.5 to 5 MP"), (math.inf, "4K and more"))


@dataclass(frozen=True, slots=True)
class Item:
    """One instruction on one picture of `size` (width, height), and the `box` that a right point is in."""

    id: str
    picture: Path
    size: tuple[int, int]
    box: Box
    instruction: str
    element: Element
    source: str  # "windows", "ios", "shop", ...

    @property
    def platform(self) -> str:
        """ "web", "mobile" or "desktop", as the benchmarks count."""
        return _OF_SOURCE.get(self.source, "web")

    @property
    def resolution(self) -> str:
        pixels = self.size[0] * self.size[1]
        return next(name for most, name in _CLASSES if pixels <= most)

    @property
    def centre(self) -> tuple[int, int]:
        left, top, right, bottom = self.box
        return min(int((left + right) / 2), self.size[0] - 1), min(int((top + bottom) / 2), self.size[1] - 1)

    @property
    def area_share(self) -> float:
        """The share of the picture's pixels in the box: what a random point scores."""
        (left, top, right, bottom), (width, height) = self.box, self.size
        across = math.floor(min(right, width - 1)) - math.ceil(left) + 1
        down = math.floor(min(bottom, height - 1)) - math.ceil(top) + 1
        return max(0, across) * max(0, down) / (width * height)


def hit(point: tuple[float, float] | None, box: Box) -> bool:
    """True if a point is in the box, its edges included: the rule of ScreenSpot."""
    left, top, right, bottom = box
    return point is not None and left <= point[0] <= right and top <= point[1] <= bottom


def read_items(folder: Path) -> tuple[Item, ...]:
    """Read all items of the JSON files in a folder and in its folder `annotations`, in the files' order.

    Raises:
        UsageError: there is none, or one is not as published; the message names it.
    """
    files = sorted(path for part in (folder, folder / "annotations") for path in part.glob("*.json"))
    if not files:
        raise UsageError(f"{folder} has no JSON files of grounding items, such as screenspot_web.json")
    sizes: dict[Path, tuple[int, int]] = {}
    items = tuple(item for path in files for item in _of_file(folder, path, sizes))
    if not items:
        raise UsageError(f"the JSON files of {folder} hold no items")
    return items


def write_items(folder: Path, items: Sequence[Item]) -> None:
    """Write the items' JSON files, one a platform, in ScreenSpot's format; pictures lie there already.

    Raises InfrastructureError if a file cannot be written.
    """
    for platform in sorted({item.platform for item in items}):
        rows = [_row(item) for item in items if item.platform == platform]
        content = msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n"
        write_file(folder / f"screenspot_{platform}.json", content)


def content_digest(items: Sequence[Item]) -> str:
    """The xxh3-128 of all items and of the bytes of their pictures.

    Raises InfrastructureError if a picture cannot be read.
    """
    found = xxhash.xxh3_128()
    for item in items:
        found.update(msgspec.json.encode((item.id, item.size, item.box, item.instruction, item.element)))
    for picture in sorted({item.picture for item in items}):
        try:
            found.update(picture.read_bytes())
        except OSError as error:
            raise InfrastructureError(f"cannot read {picture}: {error.strerror}") from error
    return found.hexdigest()


def _row(item: Item) -> dict[str, Any]:
    left, top, right, bottom = item.box
    return {
        "img_filename": item.picture.name,
        "bbox": [left, top, right - left, bottom - top],
        "instruction": item.instruction,
        "data_type": item.element,
        "data_source": item.source,
    }


class _Row(msgspec.Struct):
    """The fields of either format; others are ignored."""

    img_filename: str
    bbox: tuple[float, float, float, float]
    instruction: str
    data_type: Element | None = None
    data_source: str = ""
    ui_type: Element | None = None
    platform: str = ""


def _of_file(folder: Path, path: Path, sizes: dict[Path, tuple[int, int]]) -> Iterator[Item]:
    text = content(path, _MAX_FILE, "a file of grounding items")
    try:
        rows = msgspec.json.decode(text, type=list[_Row])
    except DECODE_ERRORS as error:
        raise UsageError(f"{path} is no file of grounding items: {error}") from error
    if len(rows) > MAX_ITEMS:
        raise UsageError(f"{path} has {len(rows):,} items: more than {MAX_ITEMS:,}")
    for number, row in enumerate(rows):
        try:
            yield _item(folder, f"{path.stem}-{number:04d}", row, sizes)
        except ValueError as error:
            raise UsageError(f"{path}, item {number}: {error}") from error


def _item(folder: Path, id: str, row: _Row, sizes: dict[Path, tuple[int, int]]) -> Item:
    """Raises ValueError that says what is wrong."""
    element = row.ui_type or row.data_type
    if element is None:
        raise ValueError("neither data_type nor ui_type says text or icon")
    if not row.instruction.strip() or len(row.instruction) > _MAX_TEXT:
        raise ValueError(f"its instruction is empty or longer than {_MAX_TEXT} characters")
    picture = _picture(folder, row.img_filename)
    if picture not in sizes:
        sizes[picture] = _size(picture)
    width, height = sizes[picture]
    left, top, a, b = row.bbox
    right, bottom = (a, b) if row.ui_type else (left + a, top + b)
    if not all(map(math.isfinite, (left, top, right, bottom))):
        raise ValueError("its box has a number that is none")
    box = (max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height)))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ValueError(f"its box {row.bbox} is empty or not on its picture of {width}x{height} pixels")
    source = (row.data_source or row.platform)[:40].lower() or "web"
    return Item(id, picture, (width, height), box, row.instruction.strip(), element, source)


def _picture(folder: Path, name: str) -> Path:
    """Find a picture by its name. Raises ValueError if it is not there, or leads out of the folder."""
    root = folder.resolve()
    for part in _PICTURES:
        try:
            found = (root / part / name).resolve()
            if found.is_file():
                if not found.is_relative_to(root):
                    raise ValueError(f"its picture {name[:200]!r} is not inside {folder}")
                return found
        except OSError:
            continue
    raise ValueError(f"there is no picture {name[:200]!r} in {', '.join(_PICTURES[:-1])} or beside it")


def _size(picture: Path) -> tuple[int, int]:
    """The width and height that a picture's head states. Raises ValueError for none, and for a huge one."""
    if picture.stat().st_size > _MAX_FILE:
        raise ValueError(f"its picture {picture.name} is larger than {_MAX_FILE >> 20} MiB")
    try:
        with Image.open(picture, formats=("PNG", "JPEG", "WEBP")) as opened:
            width, height = opened.size
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"its picture {picture.name} cannot be read: {error}") from error
    if max(width, height) > MAX_SIDE or width * height > _MAX_PIXELS:
        raise ValueError(f"its picture {picture.name} has {width}x{height} pixels: too many")
    return width, height
