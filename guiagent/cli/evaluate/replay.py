"""`guiagent replay`: writes the page of a run's stored episodes."""

from pathlib import Path

from eval.replay.stores import stores_of, write_page
from guiagent.cli.common.terminal import terminal
from guiagent.errors import UsageError
from guiagent.storage.recording import STORE, Recording


def write(run: Path, episode: str | None, out: Path | None, finish: bool) -> None:
    """Write the page of the episodes in `run`, by default into its folder.

    `finish`: end the record of a lease first.

    Raises UsageError if there is no episode, InfrastructureError if the page cannot be written.
    """
    file = out or run / "replay.html"
    recording = Recording(run)
    if finish:
        recording.finish()
    elif recording.is_open and not (run / STORE).is_dir():
        raise UsageError(
            f"an episode is still being recorded in {run}: release its device, or end it with --finish"
        )
    written = write_page(stores_of(run), file, str(run), episode)
    console = terminal()
    if recording.is_open:
        console.print("warning   an episode is still being recorded: it is shown once its device is released")
    for problem in written.problems:
        console.print(f"warning   {problem}", soft_wrap=True)
    console.print(
        f"written   {file}  {written.episodes:,} episodes, {written.steps:,} steps; "
        f"{written.frames:,} pictures in {file.name}.frames beside it",
        soft_wrap=True,
    )
