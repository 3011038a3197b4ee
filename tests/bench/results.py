"""The results of a run of the benchmarks: kept subject by subject, so that it can go on, and as tables."""

import os
import platform
from pathlib import Path
from typing import NamedTuple

import msgspec

from guiagent.errors import UsageError
from tests.bench.rows import Row


class Files(NamedTuple):
    json: Path
    markdown: Path


WHOLE = Files(Path("runs/bench/results.json"), Path("runs/bench/figures.md"))
ONLY = Files(Path("runs/bench/only.json"), Path("runs/bench/only.md"))  # of some subjects


class Subject(msgspec.Struct):
    """What one subject measured, to its end or until it failed."""

    name: str
    rounds: int
    commit: str
    rows: list[Row] = msgspec.field(default_factory=list)
    seconds: float = 0.0


class Results(msgspec.Struct):
    machine: str
    subjects: list[Subject] = msgspec.field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for subject in self.subjects for row in subject.rows]


def machine() -> str:
    """Its processors and memory, in words."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} x {model}, {memory_gb:.0f} GB"


def read(files: Files) -> Results:
    """Raises UsageError where there are none."""
    try:
        return msgspec.json.decode(files.json.read_bytes(), type=Results)
    except (OSError, msgspec.DecodeError) as error:
        reason = f"no results in {files.json} ({error}): `python -m tests.bench` makes them"
        raise UsageError(reason) from error


def write(results: Results, files: Files) -> None:
    """Both files; what is there stays whole until the new one is."""
    files.json.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(results), indent=2)
    for path, content in ((files.json, data), (files.markdown, markdown(results).encode())):
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").replace(path)


def publish(results: Results, page: Path, place: str = "figures") -> None:
    """Put the tables between the page's markers of this name. Raises UsageError where it has none."""
    opening, closing = f"<!-- {place} -->", f"<!-- /{place} -->"
    text = page.read_text()
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise UsageError(f"{page} has no {opening} and {closing} to put the tables between")
    page.write_text(f"{before}{opening}\n{markdown(results)}{closing}{after}")


def markdown(results: Results) -> str:
    """A table a subject, with what it ran on."""
    commits = sorted({subject.commit for subject in results.subjects})
    minutes = sum(subject.seconds for subject in results.subjects) / 60
    held = [row.verdict.split(",")[0] for row in results.rows]
    counts = ", ".join(f"{held.count(word)} {word}" for word in dict.fromkeys(sorted(held, reverse=True)))
    lines = [f"Commit {', '.join(commits)}; {results.machine}; {minutes:.0f} minutes. Goals: {counts}.", ""]
    for subject in results.subjects:
        lines += [
            f"**{subject.name}** ({subject.seconds:.0f} s, rounds: {subject.rounds})",
            "",
            "| what | ours | peer | ratio | over rounds | limit | goal | holds | load |",
            "|---|---|---|---|---|---|---|---|---|",
            *map(_line, subject.rows),
            "",
        ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    what = f"{row.name}, {row.unit}" + (f" ({row.note})" if row.note else "")
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    cells = [what, shown(row.ours), shown(row.peer), ratio, spread(row), shown(row.limit), row.goal]
    cells.append(row.verdict)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in [*cells, f"{row.load:.1f}"]) + " |"


def spread(row: Row) -> str:
    """The least and the greatest over the rounds: "2.41-2.77x" of a ratio, "9.1-9.9" of a figure alone."""
    if row.spread is None:
        return ""
    least, most = row.spread
    return f"{shown(least)}-{shown(most)}" if row.ratio is None else f"{least:.2f}-{most:.2f}x"


def shown(figure: float | None) -> str:
    """Three digits."""
    if figure is None:
        return ""
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"
