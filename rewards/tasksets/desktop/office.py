"""Tasks in LibreOffice Calc, Writer and Impress."""

from collections.abc import Sequence
from random import Random

from rewards.tasksets.desktop.files import Cell, letter, slides, workbook
from rewards.tasksets.desktop.scenario import (
    HOME,
    Play,
    Scenario,
    Template,
    compared,
    keys,
    lay,
    opened,
    placed,
    quiet,
    shell,
    typed,
    wait_for,
)

Sheet = Sequence[Sequence[Cell]]
_GOODS = ("Tea", "Rice", "Oil", "Salt", "Flour", "Beans", "Sugar", "Pasta")
_PLACES = ("Lisbon", "Oslo", "Quito", "Hanoi", "Accra", "Perth", "Turin", "Bergen")
_BOOK, _LETTER, _DECK = (
    f"{HOME}/Desktop/sales.xlsx",
    f"{HOME}/Desktop/letter.docx",
    f"{HOME}/Desktop/talk.pptx",
)
_SHEET = {"rules": [{"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}]}
# Control+s asks whether the format is kept, and Enter keeps it.
_IDLE = quiet("soffice.bin")
_SAVED: Play = [keys("Control+s"), _IDLE, keys("Enter"), _IDLE]


def _unsaved(solution: Play) -> dict[str, Play]:
    """The near-miss of a solution through the interface that leaves out saving."""
    saved = len(_SAVED)
    return {"not saved": solution[:-saved]} if list(solution[-saved:]) == list(_SAVED) else {}


def _rows(random: Random) -> list[list[Cell]]:
    return [[name, random.randrange(5, 400)] for name in random.sample(_GOODS, 5)]


def _table(random: Random) -> list[list[Cell]]:
    return [["Item", "Amount"], *_rows(random)]


def _amount(row: Sequence[Cell]) -> int:
    return int(row[1] or 0)


def _at(cell_right: int, cell_down: int) -> Play:
    """Go to a cell, counted from A1, in the open workbook."""
    moves = [keys("ArrowRight")] * cell_right + [keys("ArrowDown")] * cell_down
    return [wait_for("sales.xlsx"), _IDLE, keys("Escape"), keys("Control+Home"), *moves]


def _calc(instruction: str, rows: Sheet, gold: Sheet,
          solution: Play, misses: dict[str, Sheet]) -> Scenario:  # fmt: skip
    files = {"sales.xlsx": workbook(rows), "gold.xlsx": workbook(gold)}
    files |= {f"{name.replace(' ', '-')}.xlsx": workbook(book) for name, book in misses.items()}
    return Scenario(
        f"{instruction} Save the workbook in its format.",
        [placed("sales.xlsx", _BOOK), opened(_BOOK)],
        compared("compare_table", _BOOK, "gold.xlsx", **_SHEET),
        solution,
        {name: [lay(f"{name.replace(' ', '-')}.xlsx", _BOOK)] for name in misses} | _unsaved(solution),
        files,
    )


def _total(random: Random) -> Scenario:
    rows = _table(random)
    total = sum(_amount(row) for row in rows[1:])
    return _calc(
        "In the open workbook, write Total below the last item, and the sum of the amounts into the cell "
        "right of it.",
        rows,
        [*rows, ["Total", total]],
        [*_at(0, 6), typed("Total\t"), typed("=SUM(B2:B6)\n"), *_SAVED],
        {
            "off by one": [*rows, ["Total", total + 1]],
            "one row lower": [*rows, [None, None], ["Total", total]],
        },
    )


def _correct(random: Random) -> Scenario:
    rows = _table(random)
    row, right = random.randrange(1, 6), random.randrange(500, 900)
    gold = [[name, right if i == row else amount] for i, (name, amount) in enumerate(rows)]
    return _calc(
        f"The amount of {rows[row][0]} in the open workbook is wrong: it is {right}. Correct it.",
        rows,
        gold,
        [*_at(1, row), typed(f"{right}\n"), *_SAVED],
        {
            "another row": [[n, right if i == row % 5 + 1 else a] for i, (n, a) in enumerate(rows)],
            "another number": [[n, right + 10 if i == row else a] for i, (n, a) in enumerate(rows)],
        },
    )


def _append(random: Random) -> Scenario:
    rows = _table(random)
    name = random.choice([one for one in _GOODS if all(row[0] != one for row in rows)])
    amount = random.randrange(5, 400)
    return _calc(
        f"Add a row for {name} with the amount {amount} after the last row of the open workbook.",
        rows,
        [*rows, [name, amount]],
        [*_at(0, 6), typed(f"{name}\t"), typed(f"{amount}\n"), *_SAVED],
        {"first": [rows[0], [name, amount], *rows[1:]], "without amount": [*rows, [name]]},
    )


def _doubled(random: Random) -> Scenario:
    rows = _table(random)
    gold = [[*rows[0], "Double"], *([*row, 2 * _amount(row)] for row in rows[1:])]
    return _calc(
        "In the open workbook, add a column Double right of Amount, with twice the amount in each row.",
        rows,
        gold,
        [*_at(2, 0), typed("Double\n"), *(typed(f"=B{i}*2\n") for i in range(2, 7)), *_SAVED],
        {"one row short": [*gold[:-1], gold[-1][:2]], "without a head": [rows[0], *gold[1:]]},
    )


def _sorted(random: Random) -> Scenario:
    rows = _table(random)
    ordered = sorted(rows[1:], key=lambda row: str(row[0]))
    if ordered == rows[1:]:
        rows[1], rows[2] = rows[2], rows[1]
    return _calc(
        "Sort the rows of the open workbook by item, from A to Z; the head stays first.",
        rows,
        [rows[0], *ordered],
        [lay("gold.xlsx", _BOOK)],
        {
            "from Z to A": [rows[0], *reversed(ordered)],
            "amounts left behind": [rows[0], *([o[0], r[1]] for o, r in zip(ordered, rows[1:], strict=True))],
        },
    )


def _paragraphs(random: Random) -> list[str]:
    return [f"The train to {place} leaves at {random.randrange(6, 23)}:{random.randrange(10, 60)}."
            for place in random.sample(_PLACES, 4)]  # fmt: skip


def _writer(instruction: str, before: list[str], gold: list[str], solution: Play,
            misses: dict[str, list[str]]) -> Scenario:  # fmt: skip
    files = {"letter.docx": letter(before), "gold.docx": letter(gold)}
    files |= {f"{name.replace(' ', '-')}.docx": letter(text) for name, text in misses.items()}
    return Scenario(
        f"{instruction} Save the document in its format.",
        [placed("letter.docx", _LETTER), opened(_LETTER)],
        compared("compare_docx_files", _LETTER, "gold.docx", ignore_blanks=False),
        solution,
        {name: [lay(f"{name.replace(' ', '-')}.docx", _LETTER)] for name in misses} | _unsaved(solution),
        files,
    )


_IN_LETTER: Play = [wait_for("letter.docx"), _IDLE, keys("Escape")]


def _closing(random: Random) -> Scenario:
    text, place = _paragraphs(random), random.choice(_PLACES)
    last = f"See you in {place}."
    return _writer(
        f'Add a paragraph "{last}" at the end of the open document.',
        text,
        [*text, last],
        [*_IN_LETTER, keys("Control+End"), keys("Enter"), typed(last), *_SAVED],
        {"first": [last, *text], "same paragraph": [*text[:-1], f"{text[-1]} {last}"]},
    )


def _heading(random: Random) -> Scenario:
    text, title = _paragraphs(random), f"Trains in {random.randrange(2020, 2030)}"
    return _writer(
        f'Write a first paragraph "{title}" above all others in the open document.',
        text,
        [title, *text],
        [*_IN_LETTER, keys("Control+Home"), typed(f"{title}\n"), *_SAVED],
        {"last": [*text, title], "in place of the first": [title, *text[1:]]},
    )


def _remove(random: Random) -> Scenario:
    text = _paragraphs(random)
    return _writer(
        "Delete the first paragraph of the open document, with its line.",
        text,
        text[1:],
        [
            *(*_IN_LETTER, keys("Control+Home"), keys("Shift+ArrowDown"), keys("Delete"), *_SAVED),
        ],
        {"the last": text[:-1], "an empty line left": ["", *text[1:]]},
    )


def _deck(instruction: str, before: list[str], gold: list[str], misses: dict[str, list[str]]) -> Scenario:
    files = {"talk.pptx": slides(before), "gold.pptx": slides(gold)}
    files |= {f"{name.replace(' ', '-')}.pptx": slides(titles) for name, titles in misses.items()}
    return Scenario(
        f"{instruction} Save the presentation in its format.",
        [placed("talk.pptx", _DECK), opened(_DECK)],
        compared("compare_pptx_files", _DECK, "gold.pptx", examine_shape=False),
        [lay("gold.pptx", _DECK)],
        {name: [lay(f"{name.replace(' ', '-')}.pptx", _DECK)] for name in misses}
        | {"removed": [shell(f"rm {_DECK}")]},
        files,
    )


def _retitle(random: Random) -> Scenario:
    titles, slide = random.sample(_PLACES, 4), random.randrange(3)
    new = f"{titles[slide]} in winter"
    gold = [new if i == slide else title for i, title in enumerate(titles)]
    return _deck(
        f'Change the title of slide {slide + 1} of the open presentation to "{new}".',
        titles,
        gold,
        {"another slide": [new if i == slide + 1 else t for i, t in enumerate(titles)], "all": [new] * 4},
    )


def _last_slide(random: Random) -> Scenario:
    titles = random.sample(_PLACES, 4)
    return _deck(
        "Delete the last slide of the open presentation.",
        titles,
        titles[:-1],
        {"the first": titles[1:], "two": titles[:-2]},
    )


_C, _W, _I = ("libreoffice_calc",), ("libreoffice_writer",), ("libreoffice_impress",)
TEMPLATES = (
    Template("calc-total", _C, _total, screen=True),
    Template("calc-correct-amount", _C, _correct, screen=True),
    Template("calc-append-row", _C, _append, screen=True),
    Template("calc-double-column", _C, _doubled, screen=True),
    Template("calc-sort-rows", _C, _sorted),
    Template("writer-last-paragraph", _W, _closing, screen=True),
    Template("writer-first-paragraph", _W, _heading, screen=True),
    Template("writer-delete-paragraph", _W, _remove, screen=True),
    Template("impress-change-title", _I, _retitle),
    Template("impress-delete-last", _I, _last_slide),
)
