"""`guiagent dialects`: lists the action languages, and checks one against what is known of it."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Show the action languages of models, and check one.", no_args_is_help=True)


@app.command("list")
def list_dialects() -> None:
    """Print a line per dialect: its name, the units of its coordinates, and how many probes it can say."""
    from guiagent.dialects import DIALECTS, EVIDENT, find_dialect
    from guiagent.dialects.conformance import round_trips

    for name in DIALECTS:
        dialect = find_dialect(name)
        verdicts = [trip.verdict for trip in round_trips(dialect)]
        said = f"{verdicts.count('exact'):2} exact  {verdicts.count('lossy'):2} lossy"
        print(f"{name:20} {dialect.space.kind:9} {said}{'  +evidence' if name in EVIDENT else ''}")


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="Dialect, as `guiagent dialects list` shows it.")],
    strings: Annotated[
        Path | None,
        typer.Option(
            "--file",
            exists=True,
            dir_okay=False,
            help="Replies to read too, a line each: as they are, or JSON with reply, size and actions.",
        ),
    ] = None,
) -> None:
    """Check a dialect: what it says and reads back, known replies, and where clicks land on any screen.

    Exits with 1 and one line if something is not as it should be.
    """
    from guiagent.dialects import find_dialect
    from guiagent.dialects.conformance import (
        CLICKS,
        SCREENS,
        SIDES,
        defects,
        expected,
        farthest_click,
        golden,
        misread,
        round_trips,
    )
    from guiagent.errors import DialectError, UsageError

    dialect = find_dialect(name)
    for trip in round_trips(dialect):
        print(f"{trip.verdict:8} {trip.what:24} {'' if trip.verdict == 'no word' else repr(trip.said)[:100]}")
    wrong = defects(name, dialect)
    landing = farthest_click(dialect)
    drawn = f"{SCREENS * (CLICKS + 2)} clicks on {SCREENS} screens of {SIDES[0]} to {SIDES[1]} px"
    print(f"{len(expected().get(name, {'replies': []})['replies'])} golden replies")
    print(f"{drawn}: {landing.pixels} px off at most")
    if strings is not None:
        try:
            lines = [line for line in strings.read_text("utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {strings}: {error}") from None
        for number, known in enumerate(golden(lines), 1):
            reason = misread(dialect, known)
            print(f"{'bad' if reason else 'ok':8} line {number}: {reason or repr(known.reply)[:100]}")
            wrong += [f"line {number} of {strings}: {reason}"] * bool(reason)
    if wrong:
        raise DialectError(f"{name}: {len(wrong)} not as it should be, first {wrong[0]}")
