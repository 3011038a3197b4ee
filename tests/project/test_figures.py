"""README's table of figures is part of docs/figures.md, which `make bench` prints."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _rows(page: str) -> list[tuple[str, ...]]:
    lines = (ROOT / page).read_text().splitlines()
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line[:1] == "|"]


def test_every_figure_in_readme_was_measured() -> None:
    """A row of README's table has the first four cells of a row of docs/figures.md.

    What stands in brackets at the end of its name may be left out."""
    rows = [row[:4] for row in _rows("docs/figures.md")]
    measured = {*rows, *((re.sub(r" \([^()]*\)$", "", name), *figures) for name, *figures in rows)}
    rows = _rows("README.md")
    (head,) = (number for number, row in enumerate(rows) if row[1:] == ("ours", "peer", "ratio"))
    quoted = []
    for row in rows[head + 2 :]:
        if len(row) != 4:
            break
        quoted.append(row)
    assert len(quoted) >= 6
    assert [row for row in quoted if row not in measured] == []
