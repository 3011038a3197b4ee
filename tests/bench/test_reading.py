"""The bench of reading: its tokens cover the words, and a few steps teach a fresh model some of them."""

from pathlib import Path

import pytest

from tests.bench import reading
from tests.bench.reading import MEASURED, SHOWN, SIZE, Arm, covered, line, screens
from training.tiny.model import Shape


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_SCREENS", 12)
        patch.setattr(reading, "_HELD_OUT", 12)
        return Arm(Shape(vision_layers=1), 0, tmp_path_factory.mktemp("arm"))


def test_words_are_covered_by_the_first_tokens_of_their_row(arm: Arm) -> None:
    boxes = [box for one in arm.shown for box in one.rows]
    assert boxes
    for box in boxes:
        row = (box.top - SIZE[1] // 7) // 32
        assert covered(box, 32) == [5 * (row + 1), 5 * (row + 1) + 1, 5 * (row + 1) + 2]
        assert covered(box, 16)[0] == box.top // 16 * 10


def test_what_is_measured_was_not_shown(arm: Arm) -> None:
    assert not set(SHOWN) & set(MEASURED)
    again = list(screens(SHOWN, 12, arm.encoder))
    assert [one.rows for one in again] == [one.rows for one in arm.shown]
    assert [one.rows for one in again] != [one.rows for one in arm.held_out]


def test_rows_that_were_learned_by_heart_are_read(arm: Arm, tmp_path: Path) -> None:
    arm.held_out = arm.shown
    before, of = arm.read()
    arm.fit(120, 8, reading=True, pointing=False)
    after, _ = arm.read()
    assert before < 0.2 * of
    assert after > 0.8 * of


def test_a_click_counts_where_it_falls_on_the_row_that_was_named(
    arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, of = arm.pointed()
    assert of == len([one for one in arm.held_out if one.rows])
    monkeypatch.setattr("tests.bench.reading.Box.has", lambda *_: False)
    assert arm.pointed() == (0, of)


def test_a_line_has_its_interval() -> None:
    assert line("way", "what", 3, 4.2, 5, 10) == "| way | what | 3 | 4 s | 50% (24–76) of 10 |"
