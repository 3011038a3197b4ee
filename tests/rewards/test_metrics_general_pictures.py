"""OSWorld's metrics on pictures: each on one photo-like picture and what could have been done to it."""

import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from guiagent.errors import InfrastructureError
from rewards.checks import grading, metrics
from rewards.checks.metrics import general
from rewards.checks.metrics.general import pictures

SIZE = (96, 64)


def photo(seed: int = 0) -> Image.Image:
    """Soft blobs of colour, as a camera sees them."""
    noise = np.random.default_rng(seed).integers(40, 216, (8, 12, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(SIZE, Image.Resampling.BICUBIC)


def noisy(image: Image.Image, spread: float) -> Image.Image:
    values = np.asarray(image, dtype=float)
    values = values + np.random.default_rng(1).normal(0, spread, values.shape)
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def cut_out(hidden: tuple[int, int, int] | None) -> Image.Image:
    """The left half of the photo, the right one transparent; below it other colours, or the photo's own."""
    cut = photo().convert("RGBA")
    if hidden is not None:
        cut.paste(hidden, (SIZE[0] // 2, 0, *SIZE))
    cut.putalpha(Image.new("L", (SIZE[0] // 2, SIZE[1]), 255).crop((0, 0, *SIZE)))
    return cut


def shapes(background: str, *boxes: tuple[tuple[int, int, int, int], str]) -> Image.Image:
    image = Image.new("RGB", SIZE, background)
    for box, colour in boxes:
        ImageDraw.Draw(image).rectangle(box, fill=colour)
    return image


def enhanced(kind: Callable[[Image.Image], ImageEnhance._Enhance], factor: float) -> Image.Image:
    return kind(photo()).enhance(factor)


OBJECT = ((30, 20, 60, 40), "black")
CASES: list[tuple[str, Image.Image, Image.Image, dict[str, Any], Any]] = [
    ("check_structure_sim", noisy(photo(), 3), photo(), {}, 1),
    ("check_structure_sim", photo(1), photo(), {}, 0),
    ("check_structure_sim", photo().crop((0, 0, 95, 64)), photo(), {}, 0),
    ("check_structure_sim", cut_out((9, 200, 9)), cut_out(None), {}, 1),
    ("check_structure_sim", photo(), cut_out(None), {}, 0),  # nothing was cut out
    ("check_structure_sim", Image.new("RGB", (6, 6)), Image.new("RGB", (6, 6)), {}, 0),
    ("check_structure_sim_with_threshold", noisy(photo(), 40), photo(), {"ssim_threshold": 0.05}, 1),
    ("check_structure_sim_with_threshold", noisy(photo(), 40), photo(), {"ssim_threshold": 0.8}, 0),
    ("check_file_exists_and_structure_sim", photo(), photo(), {}, 1),
    ("check_file_exists_and_structure_sim", photo(2), photo(), {}, 0),
    ("check_structure_sim_resized", photo().resize((192, 128)), photo(), {}, 1),
    ("check_structure_sim_resized", photo(1).resize((192, 128)), photo(), {}, 0),
    ("check_structure_sim_resized", cut_out(None), photo().crop((0, 0, 48, 64)), {}, 1),
    ("check_structure_sim_resized", Image.new("RGBA", SIZE), photo(), {}, 0),
    ("check_brightness_decrease_and_structure_sim", enhanced(ImageEnhance.Brightness, 0.6), photo(), {}, 1),
    ("check_brightness_decrease_and_structure_sim", enhanced(ImageEnhance.Brightness, 1.4), photo(), {}, 0),
    ("check_brightness_decrease_and_structure_sim", photo(), photo(), {}, 0),
    ("check_brightness_decrease_and_structure_sim", Image.new("RGB", SIZE), photo(), {}, 0),
    ("check_brightness_decrease_and_structure_sim", Image.new("RGB", SIZE), photo(), {"threshold": 1}, 1),
    ("check_saturation_increase_and_structure_sim", enhanced(ImageEnhance.Color, 1.1), photo(), {}, 1),
    ("check_saturation_increase_and_structure_sim", enhanced(ImageEnhance.Color, 0.9), photo(), {}, 0),
    ("check_saturation_increase_and_structure_sim", enhanced(ImageEnhance.Color, 1.1), photo(1), {}, 0),
    ("check_contrast_increase_and_structure_sim", enhanced(ImageEnhance.Contrast, 1.3), photo(), {}, 1),
    ("check_contrast_increase_and_structure_sim", enhanced(ImageEnhance.Contrast, 0.7), photo(), {}, 0),
    ("check_contrast_increase_and_structure_sim", noisy(photo(), 90), photo(), {}, 0),
    ("check_palette_and_structure_sim", shapes("red", OBJECT).quantize(8), shapes("red", OBJECT), {}, 1),
    ("check_palette_and_structure_sim", photo(), photo(), {}, 0),
    ("check_palette_and_structure_sim", photo(1).quantize(256), photo(), {}, 0),
    ("check_image_mirror", ImageOps.mirror(photo()), photo(), {}, 1),
    ("check_image_mirror", photo(), photo(), {}, 0),
    ("check_image_mirror", ImageOps.flip(photo()), photo(), {}, 0),
    ("check_green_background", shapes("lime", OBJECT), shapes("white", OBJECT), {}, 1),
    ("check_green_background", shapes("white", OBJECT), shapes("white", OBJECT), {}, 0),
    ("check_green_background", shapes("lime"), shapes("white", OBJECT), {}, 0),  # the object is gone
    ("check_green_background", shapes("lime", OBJECT, ((0, 0, 2, 2), "red")), shapes("white", OBJECT), {}, 0),
    ("check_green_background", shapes("lime", OBJECT).resize((48, 32)), shapes("white", OBJECT), {}, 0),
    ("compare_image_list", photo(), photo(), {}, 1),
    ("compare_image_list", noisy(photo(), 1), photo(), {}, 0),
    ("compare_image_list", photo().crop((0, 0, 95, 64)), photo(), {}, 0),
    ("compare_images", photo(), photo(), {}, 1),
    (
        "compare_images",
        photo().resize((192, 128)),
        photo(),
        {"reference_base_result": 0.5},
        pytest.approx(1, abs=0.05),
    ),
    ("compare_images", photo(1), photo(), {"reference_base_result": 0.54}, 0),
]


@pytest.mark.parametrize(("name", "made", "gold", "options", "score"), CASES)
def test_two_pictures(
    name: str, made: Image.Image, gold: Image.Image, options: dict[str, Any], score: Any, tmp_path: Path
) -> None:
    result, expected = tmp_path / "result.png", tmp_path / "gold.png"
    made.save(result)
    gold.save(expected)
    assert metrics.load(name)(result, expected, **options) == score


def test_how_alike_pictures_are(tmp_path: Path) -> None:
    for name, image in {"gold": photo(), "near": noisy(photo(), 10), "far": photo(1)}.items():
        image.save(tmp_path / f"{name}.png")
    near, far = (
        metrics.load("compare_images")(tmp_path / f"{name}.png", tmp_path / "gold.png")
        for name in ("near", "far")
    )
    assert 0 <= far < 0.5 < near < 1
    stretched = metrics.load("compare_images")(
        tmp_path / "near.png", tmp_path / "gold.png", reference_base_result=0.5
    )
    assert stretched == pytest.approx((near - 0.5) / 0.5)


@pytest.mark.parametrize(
    ("name", "made", "rules", "score"),
    [
        ("check_image_size", photo(), {"width": 96, "height": 64}, 1),
        ("check_image_size", photo(), {"height": 64}, 1),
        ("check_image_size", photo(), {"width": 95, "height": 64}, 0),
        ("check_image_size", cut_out(None), {"width": 48, "ignore_transparent": True}, 1),
        ("check_image_size", cut_out(None), {"width": 48}, 0),
        ("check_image_size", Image.new("RGBA", SIZE), {"ignore_transparent": True}, 0),
        ("check_image_file_size", photo(), {"max_size": 1 << 20}, 1),
        ("check_image_file_size", photo(), {"max_size": 200}, 0),
        ("check_textbox_on_leftside", shapes("white", ((4, 9, 30, 20), "black")), None, 1),
        ("check_textbox_on_leftside", shapes("white", ((5, 9, 30, 20), "black")), None, 0),
        ("check_textbox_on_leftside", shapes("white"), None, 0),
        ("check_textbox_on_leftside", Image.new("RGBA", SIZE), None, 0),
        (
            "check_triangle_position",
            shapes("white", ((38, 22, 57, 41), "yellow"), ((0, 0, 3, 3), "red")),
            None,
            1,
        ),
        (
            "check_triangle_position",
            shapes("white", ((48, 22, 67, 41), "yellow"), ((0, 0, 3, 3), "red")),
            None,
            0,
        ),
        ("check_triangle_position", shapes("white"), None, 0),
    ],
)
def test_one_picture(name: str, made: Image.Image, rules: Any, score: float, tmp_path: Path) -> None:
    made.save(tmp_path / "result.png")
    parts = [tmp_path / "result.png"] if rules is None else [tmp_path / "result.png", rules]
    assert metrics.load(name)(*parts) == score


def bomb() -> bytes:
    """A PNG that declares 30000 x 30000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


def half(path: Path) -> bytes:
    photo().save(path, "PNG")
    return path.read_bytes()[:900]


GARBAGE: list[Callable[[Path], bytes]] = [
    lambda path: b"",
    lambda path: b"garbage",
    half,
    lambda path: bomb(),
    lambda path: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
]
OF_ONE = {"check_textbox_on_leftside", "check_triangle_position"}
OF_RULES = {"check_image_size", "check_image_file_size"}
IN_ANY_ORDER = "check_brightness_decrease_and_structure_sim"


@pytest.mark.parametrize(
    "name", [name for name, place in general.METRICS.items() if place.startswith("images:")]
)
def test_no_picture(name: str, tmp_path: Path) -> None:
    metric, made, gold = metrics.load(name), tmp_path / "made.png", tmp_path / "gold.png"
    photo().save(gold)
    others: list[Any] = [] if name in OF_ONE else [{}] if name in OF_RULES else [gold]
    for garbage in GARBAGE:
        made.write_bytes(garbage(made))
        assert metric(made, *others) == 0
        if others == [gold] and name != IN_ANY_ORDER:
            with pytest.raises(InfrastructureError, match="task's files"):
                metric(gold, made)
        elif others == [gold]:
            assert metric(gold, made) == 0
    assert metric(tmp_path / "none.png", *others) == 0
    assert metric(tmp_path, *others) == 0


def test_lists_of_pictures(tmp_path: Path) -> None:
    one, other = tmp_path / "one.png", tmp_path / "other.png"
    photo().save(one)
    photo(1).save(other)
    compare = metrics.load("compare_image_list")
    assert compare([one, other], [one, other]) == 1
    assert compare([other, one], [one, other]) == 0
    assert compare([one, None], [one, other]) == 0
    assert compare([one], [one, other]) == 0


def test_measures() -> None:
    grey = Image.new("RGB", (10, 10), (100, 100, 100))
    red = Image.new("RGB", (10, 10), (255, 0, 0))
    assert pictures.brightness(grey) == 100
    assert pictures.saturation(grey) == 0
    assert pictures.saturation(red) == 255
    assert pictures.contrast(grey) == 0
    assert pictures.contrast(red) == pytest.approx(255 * 2**0.5 / 3)
    assert pictures.exposed(grey, 200) == pytest.approx(200 / 255)
    assert pictures.similarity(grey, grey) == pytest.approx(1)
    assert pictures.content_box(red) == (0, 0, 10, 10)


# -- words ---------------------------------------------------------------------------------------------------


def terminal(*lines: str) -> Image.Image:
    image = Image.new("RGB", (640, 40 + 24 * len(lines)), (48, 10, 36))
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((12, 16 + 24 * number), line, fill="white", font_size=18)
    return image


@pytest.mark.slow
async def test_words_are_read_in_the_sandbox_of_graders(tmp_path: Path) -> None:
    shot = tmp_path / "ls.png"
    terminal("user@host:~$ ls", "Desktop  Documents  Music").save(shot)
    for text, value in (("ls", 1.0), ("Documents", 1.0), ("ls Desktop", 1.0), ("Pictures", 0.0)):
        rules = {"type": "text", "text": text}
        assert await grading.grade("compare_image_text", [shot, rules], {}) == value, text


def test_a_picture_without_words_and_what_is_none_score_0(tmp_path: Path) -> None:
    read = metrics.load("compare_image_text")
    photo().save(tmp_path / "photo.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    assert read(tmp_path / "photo.png", {"text": "ls"}) == read(tmp_path / "bad.png", {"text": "ls"}) == 0.0


def test_without_the_package_it_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal("ls").save(tmp_path / "ls.png")
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(
        InfrastructureError, match=r"rapidocr is not installed: pip install 'guiagent\[ocr\]'"
    ):
        metrics.load("compare_image_text")(tmp_path / "ls.png", {"text": "ls"})
