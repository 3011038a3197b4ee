"""`guiagent leaderboard`: all results below folders, by suite, with the ranks that their intervals allow."""

from pathlib import Path
from typing import Annotated

import typer

from guiagent.errors import UsageError

app = typer.Typer()


@app.command()
def leaderboard(
    folders: Annotated[list[Path], typer.Argument(help="Folders of evaluations, or folders that hold some.")],
    to: Annotated[
        Path | None, typer.Option(help="Where the page and its files are written; the first folder.")
    ] = None,
) -> None:
    """Rank the policies of all evaluations below folders; writes leaderboard.html, .md and .json."""
    from eval.leaderboard import boards_of, find_results
    from eval.report.leaderboard import print_leaderboard, write_leaderboard
    from guiagent.cli.common.terminal import terminal

    console = terminal()
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}")
    results, damaged = find_results(folders)
    for line in damaged:
        console.out(f"left out  {line}", highlight=False)
    boards = boards_of(results)
    if not boards:
        raise UsageError(f"no results of `guiagent eval` below {', '.join(map(str, folders))}")
    print_leaderboard(boards, console)
    place = to or folders[0]
    write_leaderboard(place, boards)
    console.print(f"page      {place / 'leaderboard.html'}", soft_wrap=True)
