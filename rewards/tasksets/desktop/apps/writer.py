"""Tasks in LibreOffice Writer."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from rewards.tasksets.desktop.files import letter
from rewards.tasksets.desktop.office import document
from rewards.tasksets.desktop.scenario import HOME, Play, Scenario, Template, both, compared, keys, typed
from rewards.tasksets.desktop.words import GOODS, PLACES

_LETTER = f"{HOME}/Desktop/letter.docx"
_START = keys("Control+Home")
Text = Sequence[str]


def _same_text(gold: str) -> dict[str, Any]:
    return compared("compare_docx_files", _LETTER, gold, ignore_blanks=False)


def _and_formats(metric: str) -> Callable[[str], dict[str, Any]]:
    """The metric holds, and no paragraph has another text."""
    return lambda gold: both(compared(metric, _LETTER, gold), _same_text(gold))


def _writer(
    instruction: str,
    before: Text | bytes,
    gold: Text | bytes,
    moves: Play,
    misses: Mapping[str, Text | bytes],
    check: Callable[[str], Mapping[str, Any]] = _same_text,
    *,
    is_open: bool = False,
) -> Scenario:
    """A task on letter.docx; a list of texts is a document of plain paragraphs."""
    return document(
        f"{instruction} Save the document in its format.",
        _LETTER,
        _document(before),
        _document(gold),
        check,
        {miss: _document(one) for miss, one in misses.items()},
        moves,
        is_open=is_open,
    )


def _document(one: Text | bytes) -> bytes:
    return one if isinstance(one, bytes) else letter(one)


def _anew(text: Text) -> Play:
    """Type a text in place of the whole one."""
    return [keys("Control+a"), typed("\n".join(text))]


def _paragraphs(random: Random) -> list[str]:
    return [f"The train to {place} leaves at {random.randrange(6, 23)}:{random.randrange(10, 60)}."
            for place in random.sample(PLACES, 4)]  # fmt: skip


def _closing(random: Random) -> Scenario:
    text, place = _paragraphs(random), random.choice(PLACES)
    last = f"See you in {place}."
    return _writer(
        f'Add a paragraph "{last}" at the end of the open document.',
        text,
        [*text, last],
        [keys("Control+End"), keys("Enter"), typed(last)],
        {"first": [last, *text], "same paragraph": [*text[:-1], f"{text[-1]} {last}"]},
        is_open=True,
    )


def _heading(random: Random) -> Scenario:
    text, title = _paragraphs(random), f"Trains in {random.randrange(2020, 2030)}"
    return _writer(
        f'Write a first paragraph "{title}" above all others in the open document.',
        text,
        [title, *text],
        [_START, typed(f"{title}\n")],
        {"last": [*text, title], "in place of the first": [title, *text[1:]]},
        is_open=True,
    )


def _remove(random: Random) -> Scenario:
    text = _paragraphs(random)
    return _writer(
        "Delete the first paragraph of the open document, with its line.",
        text,
        text[1:],
        [_START, keys("Shift+ArrowDown"), keys("Delete")],
        {"the last": text[:-1], "an empty line left": ["", *text[1:]]},
        is_open=True,
    )


def _replace(random: Random) -> Scenario:
    old, new = random.sample(PLACES, 2)
    text = [f"{line} {old} is far." if i % 2 else line for i, line in enumerate(_paragraphs(random))]
    text = [line.replace(new, "Cairo") for line in text] + [f"Until then, {old}!"]
    gold = [line.replace(old, new) for line in text]
    return _writer(
        f"We are not going to {old} but to {new}: replace the name everywhere in ~/Desktop/letter.docx, and "
        "leave everything else.",
        text,
        gold,
        _anew(gold),
        {"the last left": [*gold[:-1], text[-1]], "only the last": [*text[:-1], gold[-1]]},
    )


def _by_time(random: Random) -> Scenario:
    hours = random.sample(range(10, 23), 5)
    places = random.sample(PLACES, 5)
    text = [f"{h}:{random.randrange(10, 60)} {place}" for h, place in zip(hours, places, strict=True)]
    if text == sorted(text):
        text.reverse()
    gold = sorted(text)
    return _writer(
        "Put the lines of ~/Desktop/letter.docx in the order of their times, the earliest first.",
        text,
        gold,
        _anew(gold),
        {
            "the latest first": gold[::-1],
            "one lost": gold[:-1],
            "two changed places": [gold[1], gold[0], *gold[2:]],
        },
    )


def _spacing(random: Random) -> Scenario:
    text = _paragraphs(random)
    words, lines = random.choice((("double", 2.0), ("one and a half", 1.5)))

    def spaced(lines: float, count: int = 4) -> bytes:
        def finish(made: Any) -> None:
            for paragraph in made.paragraphs[:count]:
                paragraph.paragraph_format.line_spacing = lines

        return letter(text, finish)

    return _writer(
        f"Give the whole text of ~/Desktop/letter.docx {words} line spacing.",
        text,
        spaced(lines),
        [],
        {"the first paragraph alone": spaced(lines, 1), "too much": spaced(3.0)},
        lambda gold: compared("compare_line_spacing", _LETTER, gold),
    )


def _subscript(random: Random) -> Scenario:
    before, after = random.choice((("CO", "bubbles in the water"), ("H", "is light"), ("O", "is in the air")))
    text = [f"{before}2 {after}.", *_paragraphs(random)]

    def lowered(*places: int) -> bytes:
        """The 2s at these places of the first paragraph are subscript."""

        def finish(made: Any) -> None:
            first = made.paragraphs[0]
            whole = first.text
            first.clear()
            for place, character in enumerate(whole):
                first.add_run(character).font.subscript = True if place in places else None

        return letter(text, finish)

    formula = len(before)
    return _writer(
        f"In the first line of ~/Desktop/letter.docx, the 2 of {before}2 has to be subscript.",
        text,
        lowered(formula),
        [
            *(_START, *[keys("ArrowRight")] * formula),
            *(keys("Shift+ArrowRight"), keys("Control+Shift+b")),
        ],
        {
            "the letters": lowered(*range(formula)),
            "the whole formula": lowered(*range(formula + 1)),
        },
        _and_formats("compare_subscript_contains"),
    )


def _cell(random: Random) -> Scenario:
    rows = [[name, str(random.randrange(10, 99))] for name in random.sample(GOODS, 4)]
    row, right = random.randrange(4), str(random.randrange(100, 999))
    text = _paragraphs(random)

    def tabled(changes: Mapping[int, str], column: int = 1) -> bytes:
        def finish(made: Any) -> None:
            table = made.add_table(rows=4, cols=2)
            for i, (name, amount) in enumerate(rows):
                cells = [name, amount]
                cells[column] = changes.get(i, cells[column])
                for cell, told in zip(table.rows[i].cells, cells, strict=True):
                    cell.text = told
            body = made.element.body
            body.remove(table._tbl)
            body.insert(0, table._tbl)

        return letter(text, finish)

    return _writer(
        f"The table in ~/Desktop/letter.docx has a wrong number: of {rows[row][0]} there are {right}. "
        "Correct it.",
        tabled({}),
        tabled({row: right}),
        [
            *(_START, *[keys("Tab")] * (2 * row + 1), keys("Home"), keys("Shift+End")),
            typed(right),
        ],
        {
            "another row": tabled({(row + 1) % 4: right}),
            "the name": tabled({row: right}, 0),
            "added": tabled({row: rows[row][1] + right}),
        },
        _and_formats("compare_docx_tables"),
    )


def _struck(random: Random) -> Scenario:
    text = _paragraphs(random)

    def struck(*places: int, kept: Text = text) -> bytes:
        def finish(made: Any) -> None:
            for place in places:
                made.paragraphs[place].runs[0].font.strike = True

        return letter(kept, finish)

    return _writer(
        "The last train in ~/Desktop/letter.docx does not run: strike its line through. The line stays.",
        text,
        struck(3),
        [],
        {"the first": struck(0), "all": struck(0, 1, 2, 3), "deleted": struck(kept=text[:-1])},
        lambda gold: compared("evaluate_strike_through_last_paragraph", _LETTER, gold),
    )


_A = ("libreoffice_writer",)
TEMPLATES = (
    Template("writer-last-paragraph", _A, _closing, screen=True),
    Template("writer-first-paragraph", _A, _heading, screen=True),
    Template("writer-delete-paragraph", _A, _remove, screen=True),
    Template("writer-replace-place", _A, _replace, screen=True),
    Template("writer-order-by-time", _A, _by_time, screen=True),
    Template("writer-line-spacing", _A, _spacing),
    Template("writer-subscript", _A, _subscript, screen=True),
    Template("writer-table-cell", _A, _cell, screen=True),
    Template("writer-strike-through", _A, _struck),
)
