"""Files of desktop tasks, made by seeded programs: workbooks, documents, slides, pictures, sounds, mail."""

import io
import math
import wave
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from PIL import Image, ImageDraw

_RATE = 4000  # samples of a sound in a second, a byte each
Cell = str | int | float | None
Rows = Sequence[Sequence[Cell]]
Finish = Callable[[Any], None]
"""Changes a document of openpyxl, python-docx or python-pptx before it is saved."""


def workbook(rows: Rows, more: Mapping[str, Rows] | None = None, finish: Finish | None = None) -> bytes:
    """An XLSX of one sheet, named Sheet, and of `more` by name."""
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(list(row))
    for name, others in (more or {}).items():
        another = book.create_sheet(name)
        for row in others:
            another.append(list(row))
    return _saved(book, finish)


def letter(paragraphs: Sequence[str], finish: Finish | None = None) -> bytes:
    """A DOCX of plain paragraphs."""
    from docx import Document

    document = Document()
    for text in paragraphs:
        document.add_paragraph(text)
    return _saved(document, finish)


def slides(titles: Sequence[str], finish: Finish | None = None) -> bytes:
    """A PPTX with a title on each slide."""
    from pptx import Presentation

    deck = Presentation()
    for title in titles:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        assert slide.shapes.title is not None
        slide.shapes.title.text = title
    return _saved(deck, finish)


def picture(random: Random, size: tuple[int, int]) -> Image.Image:
    """Coloured discs on a slope of colours: no two parts and no two mirror images are alike."""
    width, height = size
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        x, y, r = random.randrange(width), random.randrange(height), random.randrange(8, 40)
        draw.ellipse((x - r, y - r, x + r, y + r), fill=tuple(random.randrange(256) for _ in range(3)))
    return image


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def tone(seconds: int = 2, hertz: int = 440) -> bytes:
    """A WAV of a sine; a second of it is a whole number of waves, so that seconds can be repeated."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 1, _RATE, 0, "NONE", ""))
        second = bytes(int(128 + 100 * math.sin(2 * math.pi * hertz * t / _RATE)) for t in range(_RATE))
        sound.writeframes(second * seconds)
    return file.getvalue()


def mail(sender: str, subject: str, text: str, day: int = 1) -> str:
    """A message as it stands in an mbox of Thunderbird's, which files it under January `day`."""
    return (
        f"From - Mon Jan {day:2d} 10:00:00 2024\n"
        "X-Mozilla-Status: 0001\nX-Mozilla-Status2: 00000000\n"
        f"Message-ID: <{subject.lower().replace(' ', '-')}-{day}@example.org>\n"
        f"Date: {day} Jan 2024 10:00:00 +0000\nFrom: {sender}@example.org\nTo: user@example.org\n"
        f"Subject: {subject}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\n{text}\n\n"
    )


def _saved(made: Any, finish: Finish | None) -> bytes:
    if finish is not None:
        finish(made)
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()
