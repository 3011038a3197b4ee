"""`guiagent export` and `guiagent import`: trajectories in the formats of others."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from guiagent.cli.common.plain import plain
from guiagent.errors import UsageError

if TYPE_CHECKING:
    from guiagent.formats.leaving import Counts

app = typer.Typer()

_STORE = "trajectories"


@app.command("export")
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run, an evaluation or a trajectory store.")],
    form: Annotated[
        Literal["sft", "parquet", "osworld", "atif", "androidcontrol", "lerobot", "video"],
        typer.Option("--as", help="Format of the files."),
    ],
    to: Annotated[Path, typer.Option(help="New folder of the files; it appears when all of them are there.")],
    dialect: Annotated[
        str | None,
        typer.Option(help="Action language of sft (ui-tars by default) and of osworld (pyautogui)."),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Pictures of sft as data URLs, not as files beside it.")
    ] = False,
    successes: Annotated[bool, typer.Option("--successes", help="Successful episodes only.")] = False,
    faulted: Annotated[
        bool, typer.Option("--faulted", help="Also episodes with a fault, or without a verdict.")
    ] = False,
) -> None:
    """Write stored episodes in a format of others: chat messages, Parquet, OSWorld, ATIF, LeRobot, videos."""
    from eval.replay.stores import stores_of
    from guiagent.dialects import find_dialect
    from guiagent.formats import EXPORTS
    from guiagent.formats.folder import appearing
    from guiagent.formats.leaving import Counts, Wish, leaving
    from guiagent.storage.trajectories import TrajectoryStore

    chosen = EXPORTS[form]
    if dialect is not None and chosen.dialect is None:
        raise UsageError(f"{form} holds actions and not their words: leave --dialect out")
    if embed and form != "sft":
        raise UsageError(f"--embed is for sft: {form} has one way to keep its pictures")
    words = find_dialect(dialect or chosen.dialect) if chosen.dialect else None
    wish = Wish(words, faulted, successes, embed, chosen.steady)
    counts = Counts()
    with ExitStack() as held:
        stores = {
            _named(folder, run): held.enter_context(TrajectoryStore(folder, readonly=True))
            for folder in stores_of(run)
        }
        with appearing(to) as folder:
            chosen.write(leaving(stores, wish, counts), folder, wish)
            if not counts.episodes:
                raise UsageError(f"no episode of {run} can be written: {_left_out(counts) or 'it has none'}")
    print(f"written   {to}  {counts.episodes:,} episodes, {counts.turns:,} turns as {form}")
    _tell(counts)


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="The file, or the folder that has it.")],
    form: Annotated[
        Literal["sft", "osworld", "atif", "androidcontrol", "lerobot"],
        typer.Option("--as", help="Their format."),
    ],
    run: Annotated[Path, typer.Option(help="Folder that gets them, as a store of trajectories.")],
    dialect: Annotated[
        str | None,
        typer.Option(
            help="Action language of the files: ui-tars (sft), pyautogui (osworld), json (atif, lerobot) "
            "or androidworld (androidcontrol) by default."
        ),
    ] = None,
    into: Annotated[
        str | None, typer.Option(help="Action language to write the replies anew in, for a policy to learn.")
    ] = None,
    demonstrations: Annotated[
        bool, typer.Option("--demonstrations", help="Episodes without a score are successes.")
    ] = False,
    tasks: Annotated[
        Path | None, typer.Option(help="OSWorld's folder of tasks, for instructions that results lack.")
    ] = None,
) -> None:
    """Read episodes of others into a new store: demonstrations to learn from, results to look at."""
    from guiagent.dialects import find_dialect
    from guiagent.formats import IMPORTS
    from guiagent.formats.entering import Reading, enter
    from guiagent.formats.folder import appearing
    from guiagent.storage.trajectories import TrajectoryStore

    chosen = IMPORTS[form]
    reading = Reading(find_dialect(dialect or chosen.dialect), tasks)
    words = find_dialect(into) if into is not None else None
    try:
        with appearing(run / _STORE) as folder, TrajectoryStore(folder) as store:
            counts = enter(chosen.read(path, reading), store, words, demonstrations)
    except UsageError as error:  # it may quote a file, or be about one with an odd name
        raise UsageError(plain(str(error))) from None
    print(f"imported  {run / _STORE}  {counts.episodes:,} episodes, {counts.turns:,} turns")
    without, counts.faulted = counts.faulted, 0
    _tell(counts)
    if without:
        print(f"verdict   {without:,} of them have none; --demonstrations takes them for successes")
    language = into or ((dialect or chosen.dialect) if form == "sft" else None)
    if language is None:
        print(
            "replies   as the files have them: import with --into, the policy's language, to learn from them"
        )
    elif without < counts.episodes and not counts.evaluation:
        learn = f"guiagent train --recipe sft-successes --set store={run / _STORE} --set dialect={language}"
        print(f"to learn from them: {learn} --run FOLDER")


def _named(store: Path, run: Path) -> str:
    """The name of a store among those of a run: the folder that it is in."""
    return store.parent.relative_to(run).as_posix() if store != run else store.name


def _tell(counts: "Counts") -> None:
    if told := _left_out(counts):
        print(f"left out  {told}")
    if counts.unreadable:
        print(f"turns     {counts.unreadable:,} without a valid action, which are shown and not learned")
    if counts.evaluation:
        print(f"warning   {counts.evaluation:,} episodes are on seeds of evaluation: not to be learned from")


def _left_out(counts: "Counts") -> str:
    """How many episodes were left out and why; "" if none was."""
    reasons = {
        "with a fault or without a verdict (--faulted keeps them)": counts.faulted,
        "not successful": counts.failed,
        "without pictures": counts.blind,
        "whose screen changes its size": counts.resized,
        "with an action that the language has no words for": counts.inexpressible,
    }
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
