"""The report's section on a run's health."""

from pathlib import Path
from typing import Any

from eval.report.health import health_section
from eval.report.page import write_page


def a_line(step: int, mixed: float | None, taught: float | None, **more: Any) -> dict[str, Any]:
    """A line of metrics as a run writes it: what is not known is null."""
    figures = {"groups": 8, "episodes": 64, "mixed": mixed, "all_fail": 0.5, "taught": taught}
    figures |= {"parse_errors": 0.25, "entropy": 0.3 / step, "effective_samples": None}
    return {"step": step, "health": figures, "useful_device_utilisation": 0.4} | more


def test_the_section_says_how_many_updates_taught_nothing_and_what_changed(tmp_path: Path) -> None:
    lines = [a_line(step, 0.75 if step <= 5 else 0.125, 0.5 if step % 2 else 0.0) for step in range(1, 11)]
    section = health_section(lines)
    assert "5 of 10 updates taught nothing" in section
    assert '<th scope="row">Groups with successes and failures</th><td>75%</td><td>12%</td>' in section
    assert "<td>40%</td><td>40%</td><td>40%</td><td>40%</td>" in section  # devices at what taught
    assert (
        '<th scope="row">Entropy of a sampled token</th><td>0.22</td><td>0.03</td><td>0.03</td><td>0.30</td>'
        in (section)
    )
    unknown = '<th scope="row">Effective sample size, as a share of the tokens</th><td>–</td><td>–</td>'
    assert unknown in section
    assert section.count('<g class="mixed">') == section.count('<g class="parse-errors">') == 2
    write_page(tmp_path / "page.html", "health", section)
    assert "nan" not in (tmp_path / "page.html").read_text().lower()


def test_an_update_of_which_nothing_is_known_taught_nothing() -> None:
    assert "1 of 2 updates taught nothing" in health_section([a_line(1, None, None), a_line(2, 0.5, 0.5)])


def test_a_run_from_before_there_was_such_a_line_has_no_section() -> None:
    assert health_section([{"step": 1, "entropy": 0.5}]) == health_section([]) == ""


def test_what_a_line_should_not_hold_is_not_known() -> None:
    odd = a_line(1, 0.5, 0.5, engine_busy_share="<script>", trainer_utilisation=float("inf"))
    odd["health"]["entropy"] = {"a": 1}
    assert "<script>" not in health_section([odd])
