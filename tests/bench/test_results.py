"""A run of the benchmarks: subjects by themselves, failures as rows, tables that can be put into a page."""

from pathlib import Path

import pytest
from rich.console import Console

from guiagent.errors import UsageError
from tests.bench import __main__ as bench
from tests.bench import results
from tests.bench.results import Files, Results, Subject
from tests.bench.rows import Arm, against, at_most, noted, within


def made() -> Results:
    rows = [
        against(
            "step, against a peer", "steps/s", Arm.of(1300.0, 1370.0, 1500.0), Arm.of(100.0, 99.0, 120.0), 10
        ),
        noted(at_most("reset", "ms", Arm.of(9.0), 8), "p50 | p99"),
        within("start", "s", Arm.of(0.2, 1200.0), Arm.of(400.0, 400.0), 2),
    ]
    return Results("2 x CPU", [Subject("stepping", 3, "abc", rows, 60.0)])


def test_tables_say_what_is_known_of_every_row() -> None:
    text = results.markdown(made())
    assert "Commit abc; 2 x CPU; 1 minutes. Goals: 2 yes, 1 no." in text
    lines = [line.rsplit("|", 2)[0] for line in text.splitlines() if line.startswith("| ")]
    assert lines[1:] == [
        "| step, against a peer, steps/s | 1,370 | 100 | 13.70x | 12.50-13.84x |  | >= 10x the peer | yes ",
        "| reset, ms (p50 \\| p99) | 9 |  |  |  |  | <= 8 ms | no ",
        "| start, s | 600 |  |  | 0.2-1,200 | 400 | <= 2x the limit | yes ",
    ]


def test_results_are_kept_read_and_published(tmp_path: Path) -> None:
    files = Files(tmp_path / "bench/results.json", tmp_path / "bench/figures.md")
    with pytest.raises(UsageError, match="makes them"):
        results.read(files)
    results.write(made(), files)
    assert results.read(files) == made_like(results.read(files))
    page = tmp_path / "figures.md"
    page.write_text("before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n")
    for _ in range(2):  # again and again, it is the same
        results.publish(results.read(files), page)
    kept = files.markdown.read_text()
    assert page.read_text() == f"before\n<!-- figures -->\n{kept}<!-- /figures -->\nafter\n"
    page.write_text("no place")
    with pytest.raises(UsageError, match="<!-- figures -->"):
        results.publish(results.read(files), page)


def made_like(read: Results) -> Results:
    """What was written, with the load and commit of that moment."""
    again = made()
    for mine, theirs in zip(again.rows, read.rows, strict=True):
        mine.load, mine.commit = theirs.load, theirs.commit
    return again


def test_a_subject_that_fails_is_a_row_and_the_rest_goes_on(tmp_path: Path) -> None:
    files = Files(tmp_path / "results.json", tmp_path / "figures.md")
    kept = [Subject("stepping", 1, "abc", made().rows)]
    assert bench._run(("stepping", "nonsense", "startup"), 1, kept, files, Console(quiet=True)) == 1
    stepping, failed, startup = results.read(files).subjects
    assert [row.verdict for row in stepping.rows] == ["yes", "no", "yes"]  # was done, and is not done again
    assert [row.verdict for row in failed.rows] == ["failed"] and "ended with 1" in failed.rows[0].note
    assert [row.ours is not None for row in startup.rows] == [True, True]
