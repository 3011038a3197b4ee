"""The command line: it combines all packages, and does heavy imports inside the commands."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from guiagent.cli.evaluate import tasks
from guiagent.cli.farm import commands, image
from guiagent.cli.rewards import judge, propose
from guiagent.errors import GuiAgentError, UsageError

app = typer.Typer(
    help="Train, benchmark and drive agents that use screens, on a farm of real devices.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(image.app, name="image")
app.add_typer(tasks.app, name="tasks")
app.add_typer(judge.app, name="judge")
app.add_typer(propose.app)

Launch = Literal["process", "torchrun", "ray"]

Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change one key of the config: a.b=c")]


Dialect = Annotated[
    str,
    typer.Option(
        help="The policy's: ui-tars, qwen2.5-computer, qwen2.5-mobile, qwen3-computer, qwen3-mobile."
    ),
]
Images = Annotated[
    int | None, typer.Option(min=1, help="The policy is shown the last so many screenshots; all by default.")
]
Told = Annotated[
    Path | None,
    typer.Option("--experiences", help="The experiences.jsonl of a run, which the policy is told of."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Argument(help="Devices as KIND[=COUNT][@WIDTHxHEIGHT]: browser=4 desktop phone=2@720x1280."),
]
Unisolated = Annotated[
    bool,
    typer.Option(
        "--allow-unisolated",
        help="Run devices even where they cannot be kept from this machine's files and processes.",
    ),
]


@app.command()
def up(
    kinds: Kinds = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file that says all of it.")] = None,
    overrides: Overrides = None,
    devices: Annotated[bool, typer.Option(help="--no-devices: only those of hosts that join.")] = True,
    host: Annotated[str | None, typer.Option(help="Address to listen on; loopback by default.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 picks a free one.")] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Where the pool keeps its leases and its address.")
    ] = None,
    allow_unisolated: Unisolated = False,
) -> None:
    """Start a device pool and serve it until interrupted. Four browsers, if nothing else is said.

    $GUIAGENT_TOKEN is its token and $GUIAGENT_DATABASE its PostgreSQL, where they are set.
    """
    from guiagent.cli.farm.up import up as serve

    serve(kinds or [], config, overrides or [], devices, host, port, state_dir, allow_unisolated)


@app.command()
def down(pool: commands.Pool = None) -> None:
    """Stop a running pool of this user: leases end, devices are closed."""
    from guiagent.cli.farm.up import down as stop

    stop(pool)


@app.command()
def host(
    kinds: Kinds = None,
    pool: Annotated[
        list[str] | None, typer.Option(envvar="GUIAGENT_POOL", help="Its address; several for one farm.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(envvar="GUIAGENT_NAME", help="Of this host in the farm; its hostname.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with [[devices]].")] = None,
    allow_unisolated: Unisolated = False,
) -> None:
    """Run this machine's devices for a pool elsewhere, until interrupted. $GUIAGENT_TOKEN is its token."""
    from guiagent.cli.farm.up import host as join

    join(kinds or [], pool or [], name, config, allow_unisolated)


@app.command()
def train(
    recipe: Annotated[str, typer.Option(help="A shipped recipe (arpo-demo, zero, ...) or a TOML file.")],
    run: Annotated[
        str | None,
        typer.Option(help="The run's folder, or a URL such as s3://bucket/run; an interrupted run goes on."),
    ] = None,
    overrides: Overrides = None,
    launch: Annotated[
        Launch, typer.Option(help="One process, its learner in several, or actors on a Ray cluster.")
    ] = "process",
    processes: Annotated[int, typer.Option(min=1, help="With torchrun, on this machine; one a GPU.")] = 2,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Load all that the recipe names but the weights, say what it costs."),
    ] = False,
    turn_seconds: Annotated[float, typer.Option(help="Of a turn, for the costs of a dry run.")] = 5.0,
) -> None:
    """Train a policy by a recipe, on a farm that is started for it if it names none."""
    if dry_run:
        from guiagent.cli.train.dry_run import dry_run as tell

        tell(recipe, overrides or [], turn_seconds)
        return
    if run is None:
        raise UsageError("say where the run is kept: --run FOLDER")
    from guiagent.cli.train.command import train as start

    start(recipe, run, overrides or [], launch, processes)


@app.command()
def compare(
    presets: Annotated[str, typer.Option(help="Algorithms by name, with commas between them.")],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each preset.")] = 5,
    recipe: Annotated[str, typer.Option(help="What they are all trained on.")] = "arpo-demo",
    run: Annotated[Path, typer.Option(help="Folder of the runs; what is finished is not repeated.")] = Path(
        "runs/compare"
    ),
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Of the first run; all others get its environment steps.")
    ] = None,
    env_steps: Annotated[int | None, typer.Option(min=1, help="Of every run.")] = None,
    overrides: Overrides = None,
) -> None:
    """Train presets on the same recipe, seeds and environment steps, and say how they differ."""
    from guiagent.cli.train.compare import compare as start

    names = [name.strip() for name in presets.split(",") if name.strip()]
    start(names, seeds, recipe, run, minutes, env_steps, overrides or [])


@app.command()
def seeds(
    experts: Annotated[Path, typer.Option(help="A trajectory store with an expert's successes.")],
    recipe: Annotated[str, typer.Option(help="What they are for: its policy, devices and history.")],
    run: Annotated[Path, typer.Option(help="Where they are kept; what was cut goes on.")],
    attempts: Annotated[int, typer.Option(min=1, help="At a task, under each expert's plan.")] = 8,
    overrides: Overrides = None,
) -> None:
    """Let a policy try tasks with an expert's plan in front of it; its successes begin a replay (BEPA)."""
    from guiagent.cli.train.seeds import seeds as start

    start(recipe, experts, run, attempts, overrides or [])


@app.command("eval")
def evaluate(
    policy: Annotated[str, typer.Option(help="A checkpoint folder, tiny, or a baseline by name.")],
    suite: Annotated[str, typer.Option(help="Which frozen tasks and seeds.")] = "miniwob-demo",
    run: Annotated[
        Path, typer.Option(help="Folder of the results; an interrupted run goes on from it.")
    ] = Path("runs/eval"),
    episodes: Annotated[int, typer.Option(min=1, help="Per task.")] = 50,
    devices: Annotated[int, typer.Option(min=1, max=256, help="Browsers, and so episodes at once.")] = 8,
    temperature: Annotated[float, typer.Option(help="Of the policy's sampling; 0 is greedy.")] = 1.0,
    dialect: Dialect = "ui-tars",
    images: Images = None,
    experiences: Told = None,
) -> None:
    """Benchmark a policy on a suite beside the baselines: null, random, random-element and oracle."""
    from guiagent.cli.common.policy import Sampling, history_of, load_experiences
    from guiagent.cli.evaluate.command import evaluate as start

    sampling = Sampling(
        temperature=temperature,
        dialect=dialect,
        history=history_of(images),
        experiences=load_experiences(experiences),
    )
    start(policy, suite, run, episodes, devices, sampling)


@app.command("run")
def run_task(
    instruction: Annotated[str, typer.Argument(help="What to do, in words.")],
    url: Annotated[str, typer.Option(help="The page to begin at.")],
    policy: Annotated[str, typer.Option(help="A checkpoint folder, tiny, or http://HOST:PORT/v1#MODEL.")],
    max_steps: Annotated[int, typer.Option(help="Turns at most.")] = 15,
    width: Annotated[int, typer.Option(min=64, max=4096, help="Of the screen, in pixels.")] = 1024,
    height: Annotated[int, typer.Option(min=64, max=4096, help="Of the screen, in pixels.")] = 768,
    temperature: Annotated[float, typer.Option(help="Of the policy's sampling; 0 is greedy.")] = 0.0,
    dialect: Dialect = "ui-tars",
    images: Images = None,
    experiences: Told = None,
    run: Annotated[Path, typer.Option(help="Where the episode and its report are kept.")] = Path("runs/run"),
) -> None:
    """Let a policy drive one browser."""
    from guiagent.cli.common.policy import Sampling, history_of, load_experiences
    from guiagent.cli.evaluate.drive import drive

    sampling = Sampling(
        temperature=temperature,
        dialect=dialect,
        history=history_of(images),
        experiences=load_experiences(experiences),
    )
    drive(instruction, url, policy, max_steps, width, height, sampling, run)


@app.command()
def demo(
    run: Annotated[Path, typer.Option(help="The run's folder; an interrupted demo goes on from it.")] = Path(
        "runs/demo"
    ),
    minutes: Annotated[float | None, typer.Option(help="Of training; the recipe's own by default.")] = None,
    episodes: Annotated[int, typer.Option(help="Per task and policy in each evaluation.")] = 30,
    port: Annotated[int, typer.Option(help="Of the live page; 0 picks a free one.")] = 8700,
    overrides: Overrides = None,
) -> None:
    """The main job end to end: a farm of browsers, online RL of the small policy, evaluation, a report."""
    from guiagent.cli.train.demo import demo as start

    start(run, minutes, episodes, port, overrides or [])


@app.command()
def doctor() -> None:
    """Say what this machine can do, one line a capability, with the command that mends what it cannot."""
    from guiagent.cli.doctor import doctor as examine

    raise typer.Exit(examine())


app.add_typer(commands.app)

_INTERRUPTED = 130  # typer's exit code for Ctrl-C


def main() -> None:
    """Run the command line. Our errors are one line on stderr and an exit code: 2 usage, 3 infrastructure."""
    # Sampling and updates each have a thread of their own; pools of spinning threads below them would run ten
    # times slower on few cores. OpenMP reads this once, when torch is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except GuiAgentError as error:
        with suppress(OSError):  # stderr may be on a full disk too: then only the exit code tells
            print(f"guiagent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as done:
        if done.code == _INTERRUPTED:
            print("guiagent: interrupted; the same command goes on from here", file=sys.stderr)
        raise
