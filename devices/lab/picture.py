"""The picture of a screen: rows that were drawn once are pasted, so that only what is new costs time.

Pictures have a palette of 64 colours: as PNG they are encoded four times as fast as in full colour.
"""

import io
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from devices.lab.layout import Box
from devices.lab.theme import THEMES, Colour
from guiagent.lab.state import BACK, POPUP

_SHADES = 10  # of a blend between two colours
_SCROLLBAR = 3  # pixels for every 160 of the width


def picture(
    boxes: list[Box], part: tuple[float, float] | None, theme: str, size: tuple[int, int]
) -> Image.Image:
    """Draw the boxes, and at the right edge which `part` of the screen is visible (None: all of it)."""
    image = _canvas(theme, size).copy()
    for box in boxes:
        drawn = _drawn(theme, box.role, box.label, box.value, box.width, box.height, box.focused, box.key)
        image.paste(drawn, (box.left, box.top))
    if part is not None:
        rows = [box for box in boxes if box.key not in ("", BACK, POPUP)]
        top, bottom = rows[0].top, rows[-1].top + rows[-1].height
        width = max(2, size[0] * _SCROLLBAR // 160)
        accent, line = _palette(theme)[1]["accent"], _palette(theme)[1]["line"]
        image.paste(line, (size[0] - width, top, size[0], bottom))
        begin, end = (top + round(share * (bottom - top)) for share in part)
        image.paste(accent, (size[0] - width, begin, size[0], end))
    return image


def encoded(image: Image.Image, kind: str, quality: int) -> bytes:
    """Encode a picture as PNG or JPEG."""
    out = io.BytesIO()
    if kind == "png":
        image.save(out, "PNG", compress_level=1)
    else:
        image.convert("RGB").save(out, "JPEG", quality=quality)
    return out.getvalue()


@lru_cache(maxsize=64)
def _canvas(theme: str, size: tuple[int, int]) -> Image.Image:
    canvas = Image.new("P", size, _palette(theme)[1]["ground"])
    canvas.putpalette(_palette(theme)[0].getpalette() or [])
    return canvas


@lru_cache(maxsize=64)
def _palette(name: str) -> tuple[Image.Image, dict[str, int]]:
    """A picture with the theme's palette, and where in it the plain colours are."""
    theme = THEMES[name]
    line = _blend(theme.ground, theme.text, 0.25)
    plain = {"ground": theme.ground, "surface": theme.surface, "accent": theme.accent, "line": line}
    blends = [(theme.surface, theme.text), (theme.accent, theme.on_accent), (theme.surface, theme.accent)]
    shades = [_blend(back, front, step / _SHADES) for back, front in blends for step in range(_SHADES + 1)]
    colours = [*plain.values(), *shades]
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in colours for part in colour])
    return image, {name: index for index, name in enumerate(plain)}


def _blend(back: Colour, front: Colour, share: float) -> Colour:
    red, green, blue = (round(b + (f - b) * share) for b, f in zip(back, front, strict=True))
    return red, green, blue


@lru_cache(maxsize=8192)
def _drawn(
    name: str, role: str, label: str, value: str | bool, width: int, height: int, focused: bool, key: str
) -> Image.Image:
    theme = THEMES[name]
    image = Image.new("RGB", (width, height), theme.ground)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(max(8, round(min(height * 0.38, width * 0.085))))
    unit = max(1, round(width / 160))
    middle = height // 2
    radius = {"flat": 0, "rounded": height // 5, "outlined": 2 * unit}[theme.shape]
    inner = (2 * unit, unit, width - 5 * unit, height - 2 * unit)
    edge = theme.accent if theme.shape == "outlined" or focused else None
    match role:
        case "heading":
            draw.rectangle((0, 0, width, height), theme.accent)
            draw.text((width // 2, middle), label, theme.on_accent, font, "mm")
        case "dialog":
            draw.rectangle((0, 0, width - 1, height - 1), theme.surface, theme.accent, 2 * unit)
            draw.text((width // 2, height // 4), label, theme.text, font, "mm")
        case "button" if key == BACK:
            draw.rectangle((0, 0, width, height), theme.accent)
            arrow = [
                (width * 5 // 8, height // 4),
                (width * 3 // 8, middle),
                (width * 5 // 8, height * 3 // 4),
            ]
            draw.line(arrow, theme.on_accent, 2 * unit)
        case "button":
            draw.rounded_rectangle(inner, radius, theme.accent)
            draw.text((width // 2, middle), label, theme.on_accent, font, "mm")
        case _:
            draw.rounded_rectangle(inner, radius, theme.surface, edge, unit)
            left = 7 * unit
            if role == "link":
                left += _icon(draw, theme.icon, theme.accent, left, middle, 3 * unit)
                tip = width - 12 * unit
                draw.line(
                    [(tip - 3 * unit, middle - 4 * unit), (tip, middle), (tip - 3 * unit, middle + 4 * unit)],
                    theme.accent,
                    unit,
                )
            draw.text((left, middle), label, theme.text, font, "lm")
            if role == "switch":
                _switch(draw, bool(value), theme.accent, theme.surface, width - 30 * unit, middle, unit)
            elif role == "text":
                draw.text((width - 10 * unit, middle), str(value), theme.text, font, "rm")
            elif role == "textbox":
                box = (width * 2 // 5, height // 6, width - 9 * unit, height - height // 5)
                draw.rectangle(box, theme.surface, theme.accent if focused else theme.text, unit)
                draw.text((box[0] + 3 * unit, middle), str(value)[-20:], theme.text, font, "lm")
    return image.quantize(palette=_palette(name)[0], dither=Image.Dither.NONE)


def _icon(draw: ImageDraw.ImageDraw, kind: str, colour: Colour, left: int, middle: int, radius: int) -> int:
    """Draw what stands before a link; returns how far it moves the words."""
    box = (left, middle - radius, left + 2 * radius, middle + radius)
    if kind == "dot":
        draw.ellipse(box, colour)
    elif kind == "square":
        draw.rectangle(box, colour)
    return 0 if kind == "none" else 3 * radius


def _switch(
    draw: ImageDraw.ImageDraw, on: bool, accent: Colour, ground: Colour, left: int, middle: int, unit: int
) -> None:
    box = (left, middle - 5 * unit, left + 20 * unit, middle + 5 * unit)
    draw.rounded_rectangle(box, 5 * unit, accent if on else ground, accent, unit)
    knob = left + (15 if on else 5) * unit
    draw.ellipse(
        (knob - 3 * unit, middle - 3 * unit, knob + 3 * unit, middle + 3 * unit), ground if on else accent
    )
