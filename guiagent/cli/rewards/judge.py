"""`guiagent judge`: calibrates a judge, judges unknown episodes again, labels steps."""

from pathlib import Path
from typing import Annotated

import typer

from guiagent.errors import UsageError

app = typer.Typer(
    help="Measure judges against state checks, judge episodes again, and label steps.", no_args_is_help=True
)

Config = Annotated[
    Path | None,
    typer.Option("--judge", help="TOML file with url, model and preset; by default the run's own judge."),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Change one key of the judge's config: a=b")
]


@app.command()
def calibrate(
    run: Annotated[Path | None, typer.Option(help="Folder of a run, with trajectories/ in it.")] = None,
    trajectories: Annotated[Path | None, typer.Option(help="Trajectory store, in place of --run.")] = None,
    judge: Config = None,
    overrides: Overrides = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of episodes to judge.")] = None,
) -> None:
    """Run a judge over episodes whose true outcome is known, and print how often it is wrong.

    calibration.json and verdicts.jsonl are written beside the trajectories. After an interruption the same
    command continues.
    """
    from guiagent.cli.rewards.judging import calibrate as start

    if (run is None) == (trajectories is None):
        raise UsageError("say which episodes: --run FOLDER or --trajectories FOLDER")
    start(trajectories or Path(run or "") / "trajectories", judge, overrides or [], limit)


@app.command()
def again(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    judge: Config = None,
    overrides: Overrides = None,
) -> None:
    """Judge those episodes of a run again that have no verdict. Known verdicts stay as they are."""
    from guiagent.cli.rewards.judging import again as start

    start(run / "trajectories", judge, overrides or [])


@app.command()
def steps(
    run: Annotated[Path, typer.Option(help="Folder of the run, with trajectories/ in it.")],
    judge: Annotated[
        Path | None,
        typer.Option("--judge", help="TOML file with url, model, preset; by default the run's step_judge."),
    ] = None,
    overrides: Overrides = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of episodes to label.")] = None,
) -> None:
    """Label the steps of a run's episodes as right or wrong by a step judge, and print a summary.

    Labels are written to step_verdicts.jsonl, where training writes and finds them too. The same command
    asks again about episodes that an outage left without labels.
    """
    from guiagent.cli.rewards.labelling import label_steps as start

    start(run, judge, overrides or [], limit)
