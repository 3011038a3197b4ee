"""Tasks in LibreOffice Calc."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from rewards.tasksets.desktop.files import Cell, Rows, workbook
from rewards.tasksets.desktop.office import document
from rewards.tasksets.desktop.scenario import HOME, Play, Scenario, Template, compared, keys, typed
from rewards.tasksets.desktop.words import GOODS, PLACES

_BOOK = f"{HOME}/Desktop/sales.xlsx"
_NAMES = {"type": "sheet_name"}


def _values(sheet: int = 0) -> dict[str, Any]:
    return {"type": "sheet_data", "sheet_idx0": sheet, "sheet_idx1": f"EI{sheet}"}


def _calc(
    instruction: str,
    before: Rows | bytes,
    gold: Rows | bytes,
    moves: Play,
    misses: Mapping[str, Rows | bytes],
    *,
    rules: Sequence[Mapping[str, Any]] = (_values(),),
    is_open: bool = False,
) -> Scenario:
    """A task on sales.xlsx, of which the rules are compared; tables are workbooks of one sheet."""
    return document(
        f"{instruction} Save the workbook in its format.",
        _BOOK,
        _book(before),
        _book(gold),
        lambda name: compared("compare_table", _BOOK, name, rules=list(rules)),
        {miss: _book(one) for miss, one in misses.items()},
        moves,
        is_open=is_open,
    )


def _book(one: Rows | bytes) -> bytes:
    return one if isinstance(one, bytes) else workbook(one)


def _at(cell_right: int, cell_down: int) -> Play:
    """Go to a cell, counted from A1."""
    return [keys("Control+Home"), *[keys("ArrowRight")] * cell_right, *[keys("ArrowDown")] * cell_down]


def _column(*cells: str) -> Play:
    """Type cells one below the other."""
    return [typed(f"{cell}\n") for cell in cells]


def _rows(random: Random, count: int = 5) -> list[list[Cell]]:
    return [[name, random.randrange(5, 400)] for name in random.sample(GOODS, count)]


def _table(random: Random, count: int = 5) -> list[list[Cell]]:
    return [["Item", "Amount"], *_rows(random, count)]


def _amount(row: Sequence[Cell]) -> int:
    return int(row[1] or 0)


def _total(random: Random) -> Scenario:
    rows = _table(random)
    total = sum(_amount(row) for row in rows[1:])
    return _calc(
        "In the open workbook, write Total below the last item, and the sum of the amounts into the cell "
        "right of it.",
        rows,
        [*rows, ["Total", total]],
        [*_at(0, 6), typed("Total\t"), typed("=SUM(B2:B6)\n")],
        {
            "off by one": [*rows, ["Total", total + 1]],
            "one row lower": [*rows, [None, None], ["Total", total]],
        },
        is_open=True,
    )


def _correct(random: Random) -> Scenario:
    rows = _table(random)
    row, right = random.randrange(1, 6), random.randrange(500, 900)
    gold = [[name, right if i == row else amount] for i, (name, amount) in enumerate(rows)]
    return _calc(
        f"The amount of {rows[row][0]} in the open workbook is wrong: it is {right}. Correct it.",
        rows,
        gold,
        [*_at(1, row), typed(f"{right}\n")],
        {
            "another row": [[n, right if i == row % 5 + 1 else a] for i, (n, a) in enumerate(rows)],
            "another number": [[n, right + 10 if i == row else a] for i, (n, a) in enumerate(rows)],
        },
        is_open=True,
    )


def _append(random: Random) -> Scenario:
    rows = _table(random)
    name = random.choice([one for one in GOODS if all(row[0] != one for row in rows)])
    amount = random.randrange(5, 400)
    return _calc(
        f"Add a row for {name} with the amount {amount} after the last row of the open workbook.",
        rows,
        [*rows, [name, amount]],
        [*_at(0, 6), typed(f"{name}\t"), typed(f"{amount}\n")],
        {"first": [rows[0], [name, amount], *rows[1:]], "without amount": [*rows, [name]]},
        is_open=True,
    )


def _doubled(random: Random) -> Scenario:
    rows = _table(random)
    gold = [[*rows[0], "Double"], *([*row, 2 * _amount(row)] for row in rows[1:])]
    return _calc(
        "In the open workbook, add a column Double right of Amount, with twice the amount in each row.",
        rows,
        gold,
        [*_at(2, 0), *_column("Double", *(f"=B{i}*2" for i in range(2, 7)))],
        {"one row short": [*gold[:-1], gold[-1][:2]], "without a head": [rows[0], *gold[1:]]},
        is_open=True,
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
        [],
        {
            "from Z to A": [rows[0], *reversed(ordered)],
            "amounts left behind": [rows[0], *([o[0], r[1]] for o, r in zip(ordered, rows[1:], strict=True))],
        },
        is_open=True,
    )


def _cancelled(random: Random) -> Scenario:
    rows = _table(random, 7)
    first, last = sorted(random.sample(range(1, 8), 2))
    for row in (first, last):
        rows[row][1] = 0
    gold = [row for row in rows if row[1] != 0]
    away: Play = [keys("Shift+ "), keys("Control+-")]
    return _calc(
        "Orders with the amount 0 were cancelled. Delete their rows from ~/Desktop/sales.xlsx, so that no "
        "gaps stay.",
        rows,
        gold,
        [*_at(0, last), *away, *_at(0, first), *away],
        {
            "one left": [row for i, row in enumerate(rows) if i != first],
            "gaps": [row if row[1] != 0 else [None, None] for row in rows],
            "zeros gone": [row if row[1] != 0 else row[:1] for row in rows],
        },
    )


def _prices(random: Random) -> Scenario:
    prices = [(name, random.randrange(2, 30)) for name in random.sample(GOODS, 8)]
    rows: list[list[Cell]] = [["Item", "Amount", "Cost"], *_rows(random)]
    price = dict(prices)
    gold = [rows[0], *([*row, _amount(row) * price[str(row[0])]] for row in rows[1:])]
    others: dict[str, Rows] = {"Prices": [("Item", "Price"), *prices]}
    look = [f"=B{i}*VLOOKUP(A{i},$Prices.$A$2:$B$9,2,0)" for i in range(2, 7)]
    return _calc(
        "What did each order in ~/Desktop/sales.xlsx cost? The prices are on its second sheet: fill the "
        "column Cost of the first sheet, amount times price.",
        workbook(rows, others),
        workbook(gold, others),
        [*_at(2, 1), *_column(*look)],
        {
            "the price alone": workbook([rows[0], *([*row, price[str(row[0])]] for row in rows[1:])], others),
            "one row short": workbook([*gold[:-1], rows[-1]], others),
            "on the other sheet": workbook(rows, {"Prices": gold}),
        },
        rules=(_values(0), _values(1), _NAMES),
    )


def _by_place(random: Random) -> Scenario:
    places = random.sample(PLACES, 3)
    visits = [(place, random.randrange(10, 90)) for place in places * 3]
    random.shuffle(visits)
    total = {place: sum(n for one, n in visits if one == place) for place in places}

    def sheet(totals: Sequence[Cell]) -> Rows:
        right: Rows = [("Place", "Total"), *zip(places, totals, strict=True), *[(None, None)] * 6]
        left: Rows = [("Place", "Visitors"), *visits]
        return [[*a, None, *b] for a, b in zip(left, right, strict=True)]

    wanted = [total[place] for place in places]
    return _calc(
        "~/Desktop/sales.xlsx lists visits. Fill the empty column Total on its right: all visitors of each "
        "place together.",
        sheet([None] * 3),
        sheet(wanted),
        [*_at(4, 1), *_column(*(f"=SUMIF(A$2:A$10,D{i},B$2:B$10)" for i in (2, 3, 4)))],
        {
            "in another order": sheet(wanted[::-1] if wanted != wanted[::-1] else [0, 0, 0]),
            "the visits counted": sheet([3, 3, 3]),
            "one missing": sheet([*wanted[:2], None]),
        },
    )


def _shares(random: Random) -> Scenario:
    amounts = [random.randrange(10, 60) for _ in range(4)]
    amounts.append(400 - sum(amounts))
    rows: Rows = [("Item", "Amount"), *zip(random.sample(GOODS, 5), amounts, strict=True)]
    gold = [[*rows[0], "Share"], *([*row, _amount(row) / 4] for row in rows[1:])]
    return _calc(
        "Add a column Share to ~/Desktop/sales.xlsx, right of Amount: the share of each amount in all "
        "amounts, in per cent, as a number such as 12.5.",
        rows,
        gold,
        [*_at(2, 0), *_column("Share", *(f"=B{i}*100/SUM(B$2:B$6)" for i in range(2, 7)))],
        {
            "as fractions": [gold[0], *([*row, _amount(row) / 400] for row in rows[1:])],
            "of the largest": [gold[0], *([*row, _amount(row) * 100 / max(amounts)] for row in rows[1:])],
        },
    )


def _second_sheet(random: Random) -> Scenario:
    rows, february = _table(random), _table(random)
    row, right = random.randrange(1, 6), random.randrange(500, 900)
    gold = [[name, right if i == row else amount] for i, (name, amount) in enumerate(february)]
    first = [list(one) for one in rows]
    first[row][1] = right
    return _calc(
        f"In February we sold {right} of {february[row][0]}. Correct that on the sheet February of "
        "~/Desktop/sales.xlsx.",
        workbook(rows, {"February": february}),
        workbook(rows, {"February": gold}),
        [keys("Control+PageDown"), *_at(1, row), typed(f"{right}\n")],
        {
            "on the first sheet": workbook(first, {"February": february}),
            "one row lower": workbook(
                rows,
                {"February": [[n, right if i == row % 5 + 1 else a] for i, (n, a) in enumerate(february)]},
            ),
        },
        rules=(_values(0), _values(1), _NAMES),
    )


def _bold_head(random: Random) -> Scenario:
    from openpyxl.styles import Font

    rows = _table(random)

    def bold(*cells: str) -> bytes:
        def finish(book: Any) -> None:
            for cell in cells:
                book.active[cell].font = Font(bold=True)

        return workbook(rows, finish=finish)

    return _calc(
        "Make the head of the table in ~/Desktop/sales.xlsx bold, both of its cells and nothing else.",
        rows,
        bold("A1", "B1"),
        [*_at(0, 0), keys("Shift+ArrowRight"), keys("Control+b")],
        {"one cell": bold("A1"), "the first column": bold(*(f"A{i}" for i in range(1, 7)), "B1")},
        rules=(_values(), {"type": "style", "sheet_idx0": 0, "sheet_idx1": "EI0", "props": ["font_bold"]}),
    )


def _frozen_head(random: Random) -> Scenario:
    rows: Rows = [("Day", "Visitors"), *((day, random.randrange(9, 99)) for day in range(1, 60))]

    def frozen(at: str) -> bytes:
        def finish(book: Any) -> None:
            book.active.freeze_panes = at

        return workbook(rows, finish=finish)

    return _calc(
        "When I scroll down in ~/Desktop/sales.xlsx, the first row shall stay in sight: freeze it, and no "
        "column.",
        rows,
        frozen("A2"),
        [],
        {"a column too": frozen("B2"), "two rows": frozen("A3"), "only the column": frozen("B1")},
        rules=(_values(), {"type": "freeze", "sheet_idx0": 0, "sheet_idx1": "EI0"}),
    )


_A = ("libreoffice_calc",)
TEMPLATES = (
    Template("calc-total", _A, _total, screen=True),
    Template("calc-correct-amount", _A, _correct, screen=True),
    Template("calc-append-row", _A, _append, screen=True),
    Template("calc-double-column", _A, _doubled, screen=True),
    Template("calc-sort-rows", _A, _sorted),
    Template("calc-delete-cancelled", _A, _cancelled, screen=True),
    Template("calc-look-up-prices", _A, _prices, screen=True),
    Template("calc-sum-by-place", _A, _by_place, screen=True),
    Template("calc-shares", _A, _shares, screen=True),
    Template("calc-second-sheet", _A, _second_sheet, screen=True),
    Template("calc-bold-head", _A, _bold_head, screen=True),
    Template("calc-freeze-head", _A, _frozen_head),
)
