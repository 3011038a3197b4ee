"""Themes of made-to-order apps: colours, shapes and places of what is drawn."""

from dataclasses import dataclass
from typing import Literal

from guiagent.errors import UsageError

Colour = tuple[int, int, int]  # red, green, blue, 0 to 255

LEAST_CONTRAST = 3.0
"""Of a control against its ground, as WCAG 2.1 asks of controls and large text (criterion 1.4.11)."""


@dataclass(frozen=True, slots=True)
class Theme:
    """How an app looks.

    Attributes:
        ground: colour behind the rows.
        surface: colour of a row.
        text: colour of words on a row.
        accent: colour of the header, of buttons and of what is switched on.
        on_accent: colour of words on the accent.
        shape: of rows and buttons.
        header: the side of the display that the title is at.
        back: the side of the header that the arrow is at.
        icon: what stands before a link.
    """

    ground: Colour
    surface: Colour
    text: Colour
    accent: Colour
    on_accent: Colour
    shape: Literal["flat", "rounded", "outlined"] = "flat"
    header: Literal["top", "bottom"] = "top"
    back: Literal["left", "right"] = "left"
    icon: Literal["none", "dot", "square"] = "none"


def checked(theme: Theme) -> Theme:
    """Return the theme. Raises UsageError if its words or buttons cannot be told from what they stand on."""
    pairs = {
        "text on its surface": (theme.text, theme.surface),
        "words on the accent": (theme.on_accent, theme.accent),
        "the accent on the surface": (theme.accent, theme.surface),
        "the accent on the ground": (theme.accent, theme.ground),
    }
    for what, (front, back) in pairs.items():
        if (ratio := contrast(front, back)) < LEAST_CONTRAST:
            raise UsageError(
                f"the theme hides {what}: its contrast is {ratio:.1f}; give it {LEAST_CONTRAST:g} or more"
            )
    return theme


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of two colours, 1 to 21, as WCAG 2.1 defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour) -> float:
    """Relative luminance, 0 to 1, of an sRGB colour (WCAG 2.1)."""
    red, green, blue = (
        part / 255 / 12.92 if part / 255 <= 0.03928 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


THEMES: dict[str, Theme] = {
    name: checked(theme)
    for name, theme in {
        "paper": Theme((244, 242, 236), (255, 255, 255), (34, 34, 34), (28, 84, 148), (255, 255, 255)),
        "mint": Theme(
            (232, 246, 240),
            (255, 255, 255),
            (20, 48, 40),
            (0, 112, 84),
            (255, 255, 255),
            "rounded",
            icon="dot",
        ),
        "slate": Theme((38, 44, 54), (52, 60, 72), (236, 240, 244), (122, 186, 255), (16, 22, 30), "flat"),
        "rose": Theme(
            (252, 238, 240),
            (255, 250, 250),
            (66, 22, 34),
            (170, 30, 76),
            (255, 255, 255),
            "outlined",
            back="right",
        ),
        "sand": Theme(
            (240, 228, 206),
            (252, 246, 234),
            (60, 44, 20),
            (140, 76, 10),
            (255, 255, 255),
            "rounded",
            icon="square",
        ),
        "grape": Theme(
            (30, 22, 46), (46, 34, 70), (240, 232, 252), (206, 160, 255), (26, 14, 44), "outlined", icon="dot"
        ),
        # Kept from training: their looks are what generalisation is measured on.
        "neon": Theme(
            (8, 10, 14),
            (18, 22, 30),
            (180, 255, 214),
            (255, 214, 0),
            (20, 18, 0),
            "outlined",
            "bottom",
            "right",
            "square",
        ),
        "brick": Theme(
            (226, 206, 198),
            (246, 236, 230),
            (58, 20, 10),
            (150, 48, 22),
            (255, 246, 240),
            "flat",
            "bottom",
            icon="square",
        ),
        "frost": Theme(
            (214, 228, 244),
            (234, 242, 252),
            (12, 34, 66),
            (34, 60, 140),
            (255, 255, 255),
            "rounded",
            "top",
            "right",
            "dot",
        ),
    }.items()
}
