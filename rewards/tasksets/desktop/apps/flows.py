"""Tasks over several applications: what one shows or holds goes into another's file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from rewards.tasksets.desktop.apps.thunderbird import mailbox
from rewards.tasksets.desktop.files import Cell, Rows, letter, mail, slides, workbook
from rewards.tasksets.desktop.office import document, same_slides
from rewards.tasksets.desktop.scenario import (
    HOME,
    TERMINAL,
    Scenario,
    Template,
    compared,
    edited,
    in_terminal,
    keys,
    opened_by,
    pause,
    placed,
    printed,
    ran,
    shell,
    typed,
    wait_for,
)
from rewards.tasksets.desktop.words import GOODS, PLACES, WORDS

_DESK, _DOCUMENTS = f"{HOME}/Desktop", f"{HOME}/Documents"
_BOOK = f"{_DESK}/sales.xlsx"
_VALUES = {"rules": [{"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}]}


def _with(scenario: Scenario, files: Mapping[str, bytes], steps: Sequence[Mapping[str, Any]]) -> Scenario:
    """The scenario with more files and more set-up steps, which come first."""
    return replace(scenario, config=[*steps, *scenario.config], files={**scenario.files, **files})


def _repack(random: Random) -> Scenario:
    old, new, *others = random.sample(WORDS, 4)
    archive, folder = f"{HOME}/Downloads/site.tar.gz", "/tmp/site"
    texts = {"config.ini": f"host={old}\n", **{f"{name}.txt": f"{name} of {old}\n" for name in others}}
    made = " && ".join(f"printf '%s\\n' '{text.strip()}' > {name}" for name, text in texts.items())
    gold = texts | {"config.ini": f"host={new}\n"}
    packed = f"{_DESK}/site.tar.gz"
    each = "for f in $(find . -type f | LC_ALL=C sort); do echo $f; cat $f; done"
    show = f"cd $(mktemp -d) && tar -xzf {packed} && {each}"
    unpacked = f"mkdir /tmp/w && cd /tmp/w && tar -xzf {archive}"
    changed = f"sed -i s/{old}/{new}/"
    return Scenario(
        f"Unpack ~/Downloads/site.tar.gz, set the host in its config.ini to {new}, and pack all of its files "
        "again, as ~/Desktop/site.tar.gz, without a folder around them. The other files still speak of the "
        "old host.",
        [
            ran(f"mkdir {folder} && cd {folder} && {made} && tar -czf {archive} * && rm -r {folder}"),
            *TERMINAL,
        ],
        printed(show, "".join(f"./{name}\n{gold[name]}" for name in sorted(gold))),
        in_terminal(f"{unpacked} && {changed} config.ini && tar -czf {packed} *"),
        {
            "all files changed": [shell(f"{unpacked} && {changed} * && tar -czf {packed} *")],
            "config.ini alone": [
                shell(f"{unpacked} && {changed} config.ini && tar -czf {packed} config.ini")
            ],
            "as it was": [shell(f"cp {archive} {packed}")],
        },
    )


def _table(random: Random) -> list[list[Cell]]:
    rows: list[list[Cell]] = [[name, random.randrange(5, 400)] for name in random.sample(GOODS, 5)]
    return [["Item", "Amount"], *rows]


def _total_to_note(random: Random) -> Scenario:
    rows = _table(random)
    total = sum(int(row[1] or 0) for row in rows[1:])
    path = f"{_DOCUMENTS}/report.txt"
    line = "All sales together: "
    unsaved = [wait_for("report.txt"), pause(0.7), keys("Control+End"), typed(str(total))]
    scenario = edited(
        "In report.txt, which is open in the editor, a number is missing at the end: the sum of all amounts "
        "of the workbook ~/Desktop/sales.xlsx. Add it, and save the report.",
        path,
        line.encode(),
        f"{line}{total}".encode(),
        lambda gold: compared("compare_text_file", path, gold, ignore_blanks=True),
        {
            "one row short": f"{line}{total - int(rows[-1][1] or 0)}".encode(),
            "the number alone": str(total).encode(),
        },
        begin=opened_by("mousepad", path),
        solution=[*unsaved, keys("Control+s"), pause(0.7)],
        unsaved=unsaved,
    )
    return _with(scenario, {"sales.xlsx": workbook(rows)}, [placed("sales.xlsx", _BOOK)])


def _mail_to_book(random: Random) -> Scenario:
    rows = _table(random)
    goods = next(name for name in GOODS if all(row[0] != name for row in rows))
    amount = random.randrange(5, 400)
    order = mail(random.choice(WORDS), "Order", f"Please send us {amount} boxes of {goods}.", 7)
    other = mail(random.choice(WORDS), "Question", f"Do you have {rows[1][0]}?", 8)
    steps, files = mailbox({"Inbox": [order, other]})
    scenario = document(
        'The mail "Order" in Thunderbird\'s local Inbox orders something. Add it as the last row of '
        "~/Desktop/sales.xlsx, with item and amount as in the other rows, and save the workbook in its "
        "format.",
        _BOOK,
        workbook(rows),
        workbook([*rows, [goods, amount]]),
        lambda gold: compared("compare_table", _BOOK, gold, **_VALUES),
        {
            "the amount missing": workbook([*rows, [goods, None]]),
            "added to another": workbook([*rows[:1], [rows[1][0], int(rows[1][1] or 0) + amount], *rows[2:]]),
            "first": workbook([rows[0], [goods, amount], *rows[1:]]),
        },
        [keys("Control+Home"), *[keys("ArrowDown")] * 6, typed(f"{goods}\t"), typed(f"{amount}\n")],
    )
    return _with(scenario, files, steps)


def _page_to_book(random: Random) -> Scenario:
    prices = {name: random.randrange(2, 60) for name in random.sample(GOODS, 6)}
    chosen = random.sample(sorted(prices), 4)
    gold: Rows = [("Item", "Price"), *((name, prices[name]) for name in chosen)]
    listed = "".join(f"<tr><td>{name}<td>{price} euros" for name, price in prices.items())
    page = f"<!DOCTYPE html><title>Prices</title><table>{listed}</table>".encode()
    moved: Rows = [
        gold[0],
        *((name, prices[other]) for name, other in zip(chosen, chosen[1:] + chosen[:1], strict=True)),
    ]
    scenario = document(
        "The page ~/Documents/prices.html lists prices. Fill the empty column of ~/Desktop/sales.xlsx with "
        "them, as plain numbers, and save the workbook in its format.",
        _BOOK,
        workbook([gold[0], *((name,) for name in chosen)]),
        workbook(gold),
        lambda gold: compared("compare_table", _BOOK, gold, **_VALUES),
        {
            "as texts": workbook([gold[0], *((name, f"{prices[name]} euros") for name in chosen)]),
            "of the next one": workbook(moved) if moved != gold else workbook(gold[:-1]),
            "one missing": workbook([*gold[:-1], [chosen[-1]]]),
        },
        [
            *(keys("Control+Home"), keys("ArrowRight"), keys("ArrowDown")),
            *(typed(f"{prices[name]}\n") for name in chosen),
        ],
    )
    return _with(scenario, {"prices.html": page}, [placed("prices.html", f"{_DOCUMENTS}/prices.html")])


def _outline_to_slides(random: Random) -> Scenario:
    titles = random.sample(PLACES, 4)
    path = f"{_DESK}/talk.pptx"
    scenario = document(
        "~/Documents/outline.txt has a line for each slide of my talk. ~/Desktop/talk.pptx has the first "
        "one: add the others in this order, with the lines as titles, laid out as the first is, and save it "
        "in its format.",
        path,
        slides(titles[:1]),
        slides(titles),
        lambda gold: same_slides(path, gold),
        {
            "in another order": slides([titles[0], titles[2], titles[1], titles[3]]),
            "one short": slides(titles[:3]),
            "on one slide": slides(["\n".join(titles)]),
        },
    )
    outline = "".join(f"{title}\n" for title in titles).encode()
    return _with(scenario, {"outline.txt": outline}, [placed("outline.txt", f"{_DOCUMENTS}/outline.txt")])


def _book_to_letter(random: Random) -> Scenario:
    rows = _table(random)
    best = max(rows[1:], key=lambda row: int(row[1] or 0))
    if sum(row[1] == best[1] for row in rows[1:]) > 1:
        best[1] = int(best[1] or 0) + 1
    path = f"{_DESK}/letter.docx"
    first, last = "What sold best this year:", "We thank all who helped."
    text = [first, "?", last]
    gold = [first, str(best[0]), last]
    scenario = document(
        "Put the name of the item with the largest amount in ~/Desktop/sales.xlsx in the place of the "
        "question mark in ~/Desktop/letter.docx, and save the document in its format.",
        path,
        letter(text),
        letter(gold),
        lambda gold: compared("compare_docx_files", path, gold, ignore_blanks=False),
        {
            "another item": letter([first, str(next(row[0] for row in rows[1:] if row != best)), last]),
            "with its amount": letter([first, f"{best[0]} {best[1]}", last]),
            "mark kept": letter([first, f"{best[0]}?", last]),
        },
        [keys("Control+Home"), keys("ArrowDown"), keys("Delete"), typed(str(best[0]))],
    )
    return _with(scenario, {"sales.xlsx": workbook(rows)}, [placed("sales.xlsx", _BOOK)])


TEMPLATES = (
    Template("flow-repack", ("os", "editor"), _repack, screen=True),
    Template("flow-total-to-report", ("editor", "libreoffice_calc"), _total_to_note, screen=True),
    Template("flow-mail-to-workbook", ("thunderbird", "libreoffice_calc"), _mail_to_book, screen=True),
    Template("flow-page-to-workbook", ("chrome", "libreoffice_calc"), _page_to_book, screen=True),
    Template("flow-outline-to-slides", ("editor", "libreoffice_impress"), _outline_to_slides),
    Template("flow-best-to-letter", ("libreoffice_calc", "libreoffice_writer"), _book_to_letter, screen=True),
)
