"""`guiagent replay`: writes the page of a run's stored episodes."""

from pathlib import Path

from rich.console import Console

from eval.replay.stores import stores_of, write_page


def replay(run: Path, episode: str | None, out: Path | None) -> None:
    """Write the page of the episodes in `run`, by default into its folder.

    Raises UsageError if there is no episode, InfrastructureError if the page cannot be written.
    """
    file = out or run / "replay.html"
    written = write_page(stores_of(run), file, str(run), episode)
    console = Console()
    for problem in written.problems:
        console.print(f"warning   {problem}", soft_wrap=True, markup=False)
    console.print(
        f"written   {file}  {written.episodes:,} episodes, {written.steps:,} steps; "
        f"{written.frames:,} pictures in {file.name}.frames beside it",
        soft_wrap=True,
        markup=False,
    )
