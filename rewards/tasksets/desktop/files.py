"""Files of desktop tasks, made by seeded programs: workbooks, documents, slides, pictures, sounds."""

import io
import math
import struct
import wave
from collections.abc import Sequence
from random import Random
from typing import Any

from PIL import Image, ImageDraw

Cell = str | int | float | None


def workbook(rows: Sequence[Sequence[Cell]]) -> bytes:
    """An XLSX of one sheet."""
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(list(row))
    return _saved(book)


def letter(paragraphs: Sequence[str]) -> bytes:
    """A DOCX of plain paragraphs."""
    from docx import Document

    document = Document()
    for text in paragraphs:
        document.add_paragraph(text)
    return _saved(document)


def slides(titles: Sequence[str]) -> bytes:
    """A PPTX with a title on each slide."""
    from pptx import Presentation

    deck = Presentation()
    for title in titles:
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        assert slide.shapes.title is not None
        slide.shapes.title.text = title
    return _saved(deck)


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


def tone(seconds: int = 2, hertz: float = 440.0) -> bytes:
    """A WAV of a sine."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        samples = (int(8000 * math.sin(2 * math.pi * hertz * t / 8000)) for t in range(8000 * seconds))
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()


def _saved(made: Any) -> bytes:
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()
