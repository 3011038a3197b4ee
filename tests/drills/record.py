"""The record of the drills: one JSON line a run in runs/drills, and the tables of docs/reliability.md.

Beside the page lies what it was made of (docs/reliability.jsonl), so that publishing what was run here keeps
the rows of drills that were not.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from guiagent.errors import UsageError
from tests.bench.results import machine
from tests.bench.rows import current_commit
from tests.drills.guarantees import GUARANTEES, Guarantee
from tests.drills.tally import Tally, bound

KEPT = Path("runs/drills/drills.jsonl")
_BEGIN, _END = "<!-- drills -->", "<!-- /drills -->"


class Entry(msgspec.Struct, kw_only=True):
    """One run of one drill."""

    drill: str
    with_: str = ""  # such as the store
    unit: str
    tried: dict[str, int]
    lost: dict[str, int]
    figures: dict[str, float] = {}
    said: list[str] = []
    seconds: float = 0.0
    date: str = msgspec.field(default_factory=lambda: time.strftime("%Y-%m-%d", time.gmtime()))
    commit: str = msgspec.field(default_factory=current_commit)
    machine: str = msgspec.field(default_factory=machine)

    @property
    def title(self) -> str:
        return f"{self.drill}, {self.with_}" if self.with_ else self.drill

    @property
    def held(self) -> bool:
        return not any(self.lost.values()) and self.tried.get(self.unit, 0) > 0


def entry(drill: str, with_: str, tally: Tally, seconds: float) -> Entry:
    return Entry(
        drill=drill,
        with_=with_,
        unit=tally.unit,
        tried={name: count for name, count in tally.tried.items() if count or name == tally.unit},
        lost=tally.lost,
        figures=tally.figures,
        said=tally.said,
        seconds=seconds,
    )


def keep(one: Entry, path: Path = KEPT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(one) + b"\n")


def read(path: Path = KEPT) -> list[Entry]:
    """The last run of every drill, in the order of the first ones. Raises UsageError without any."""
    try:
        lines = path.read_bytes().splitlines()
        entries = [msgspec.json.decode(line, type=Entry) for line in lines]
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"no drills in {path} ({error}): `python -m tests.drills NAME` makes them"
        ) from error
    return list({one.title: one for one in entries}.values())


def published(page: Path) -> list[Entry]:
    """The runs that the page's tables show."""
    return read(page.with_suffix(".jsonl"))


def publish(entries: Sequence[Entry], page: Path) -> None:
    """Put the tables between the page's markers, with new runs in the place of those of the same drill.

    Raises UsageError where the page has no markers.
    """
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise UsageError(f"{page} has no {_BEGIN} and {_END} to put the tables between")
    kept = page.with_suffix(".jsonl")
    last = {one.title: one for one in [*(published(page) if kept.exists() else []), *entries]}
    all_of_them = sorted(last.values(), key=lambda one: one.title)
    kept.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in all_of_them))
    page.write_text(f"{before}{_BEGIN}\n{markdown(all_of_them)}{_END}{after}")


def markdown(entries: Sequence[Entry]) -> str:
    """The guarantees with what was counted for them, then every drill by itself."""
    lines = ["| | what is promised | test | counted |", "|---|---|---|---|"]
    lines += [_guarantee(one, [e for e in entries if e.drill in one.drills]) for one in GUARANTEES]
    lines += [
        "",
        "| drill | tried | must not happen | at most, at 95 % | measured | run |",
        "|---|---|---|---|---|---|",
        *map(_line, entries),
        "",
    ]
    machines = list(dict.fromkeys(one.machine for one in entries))
    return "\n".join([*lines, f"Machine: {'; '.join(machines)}.", ""])


def _guarantee(one: Guarantee, entries: Sequence[Entry]) -> str:
    commands = [f"`python -m tests.drills {name}`" for name in one.drills]
    counted = [
        f"{entry.title}: {entry.tried.get(entry.unit, 0):,} {entry.unit}, {_verdict(entry)}"
        for entry in entries
    ]
    cells = [one.name, one.promise, "; ".join([*commands, *one.tests]), "; ".join(counted) or "not run yet"]
    return _row(cells)


def _verdict(one: Entry) -> str:
    if one.held:
        return "nothing lost"
    return ", ".join(f"{count} {name}" for name, count in one.lost.items() if count) or "nothing tried"


def _line(one: Entry) -> str:
    trials = one.tried.get(one.unit, 0)
    most = bound(sum(one.lost.values()), trials)
    shown = f"{most:.2g} of {one.unit}" if most < 1 else "no bound"
    figures = ", ".join(f"{name} {value:,.3g}" for name, value in one.figures.items())
    run = f"{one.date}, {one.commit}, {one.seconds:.0f} s"
    return _row([one.title, _counts(one.tried), _counts(one.lost), shown, figures, run])


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
