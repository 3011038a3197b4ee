"""README's table of doors: three lines each, which are lines of a file that the tests run."""

import re
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text().splitlines()


def _rows() -> list[tuple[str, list[str], str]]:
    """Of every door its name, its lines, and the file that has them."""
    head = README.index("| door | three lines | of |")
    rows = takewhile(lambda line: line.startswith("|"), README[head + 2 :])
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return [
        (door, re.findall(r"`([^`]+)`", said), re.fullmatch(r"\[\w+\]\((.+)\)", of)[1])  # type: ignore[index]
        for door, said, of in cells
    ]


def _joined(text: str) -> str:
    """Without what layout adds: white space where lines end, a comma before a bracket that closes."""
    return re.sub(r",?(?=[)\]}])", "", re.sub(r"\s+", "", text))


@pytest.mark.parametrize(("door", "lines", "file"), _rows(), ids=lambda value: str(value)[:30])
def test_a_door_has_three_lines_of_what_is_run(door: str, lines: list[str], file: str) -> None:
    page = _joined((ROOT / file).read_text())
    assert len(lines) == 3, door
    assert [line for line in lines if _joined(line) not in page] == []


def test_every_example_of_a_door_is_in_the_table() -> None:
    named = {file for *_, file in _rows()}
    examples = {f"examples/doors/{path.name}" for path in (ROOT / "examples/doors").glob("*.py")}
    # LeRobot's is a data set's (docs/doors.md), miniwob-cube a cube of others beside ours.
    assert examples - named == {"examples/doors/lerobot_dataset.py", "examples/doors/cube_miniwob.py"}
