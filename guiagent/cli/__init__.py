"""The command line: it combines all packages, and does heavy imports inside the commands."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from guiagent.cli import agents, dialects, doors, formats, mcp, proxy, replay
from guiagent.cli.common import place
from guiagent.cli.common.plain import plain_lines
from guiagent.cli.evaluate import grounding, leaderboard, tasks
from guiagent.cli.farm import commands, image, profile
from guiagent.cli.rewards import judge, propose
from guiagent.cli.train import Launch
from guiagent.errors import GuiAgentError, UsageError

app = typer.Typer(
    help="Train, benchmark and drive agents that use screens, on a farm of real devices.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(image.app, name="image")
app.add_typer(profile.app, name="profile")
app.add_typer(tasks.app, name="tasks")
app.add_typer(grounding.app, name="grounding")
app.add_typer(leaderboard.app)
app.add_typer(judge.app, name="judge")
app.add_typer(propose.app)
app.add_typer(dialects.app, name="dialects")
app.add_typer(mcp.app)
app.add_typer(agents.app)
app.add_typer(doors.app)
app.add_typer(proxy.app)
app.add_typer(formats.app)
app.add_typer(replay.app)

Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change one key of the config: a.b=c")]


Dialect = Annotated[
    str,
    typer.Option(
        help="Action language of the policy, such as ui-tars or qwen3-computer: `guiagent dialects list`."
    ),
]
Images = Annotated[
    int | None,
    typer.Option(min=1, help="Show the policy only so many of the last screenshots; all by default."),
]
Library = Annotated[
    Path | None,
    typer.Option("--experiences", help="Add the experiences.jsonl of a run to the policy's prompt."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Argument(help="Devices as KIND[=COUNT][@WIDTHxHEIGHT]: browser=4 desktop phone=2@720x1280."),
]
Unisolated = Annotated[
    bool,
    typer.Option(
        "--allow-unisolated",
        envvar="GUIAGENT_ALLOW_UNISOLATED",
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
    show_token: Annotated[
        bool, typer.Option("--show-token", help="Print the live page's address with the pool's token.")
    ] = False,
) -> None:
    """Start a device pool and serve it until interrupted. Four browsers, if nothing else is said.

    Where they are set, $GUIAGENT_TOKEN is the operator's token, $GUIAGENT_HOST_TOKEN one with which hosts can
    join and do nothing else, and $GUIAGENT_DATABASE a PostgreSQL; with _FILE after the name, a file has it.
    """
    from guiagent.cli.farm.up import up as serve

    serve(kinds or [], config, overrides or [], devices, host, port, state_dir, allow_unisolated, show_token)


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
    """Run this machine's devices for a pool elsewhere, until interrupted.

    $GUIAGENT_HOST_TOKEN is the pool's token for hosts, or $GUIAGENT_TOKEN the operator's; with _FILE after
    the name it is a file that holds it.
    """
    from guiagent.cli.farm.up import host as join

    join(kinds or [], pool or [], name, config, allow_unisolated)


@app.command()
def train(
    recipe: Annotated[
        str, typer.Option(help="Name of a shipped recipe (arpo-demo, zero, ...) or a TOML file.")
    ],
    run: Annotated[
        str | None,
        typer.Option(
            help="Folder of the run, or a URL such as s3://bucket/run. An interrupted run is continued."
        ),
    ] = None,
    overrides: Overrides = None,
    fork_from: Annotated[
        Path | None,
        typer.Option("--fork-from", help="Begin a new run with the weights of this one's newest checkpoint."),
    ] = None,
    launch: Annotated[
        Launch | None,
        typer.Option(
            help="Train in one process (the default), share the learner among several, or use a Ray cluster."
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Local processes of --launch torchrun; as many as [placement] has trainers, else 2."
        ),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(help="Of a recipe in stages, those to carry out, such as sft,single; all by default."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the run; the recipe's by default.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Of a recipe in stages: runs, a seed each; means over them are told."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check all that the recipe names except the weights, and estimate the cost."
        ),
    ] = False,
    turn_seconds: Annotated[
        float, typer.Option(help="Seconds that a turn takes, for the estimate of a dry run.")
    ] = 5.0,
    gpus: Annotated[
        int | None, typer.Option(min=0, help="GPUs of a host, for a dry run; those that are here, if any.")
    ] = None,
    gpu_gib: Annotated[
        float | None, typer.Option(min=1, help="Their memory in GiB, for a dry run; as here, else 80.")
    ] = None,
) -> None:
    """Train a policy by a recipe. A farm is started for the run unless the recipe names one."""
    overrides = [*(overrides or [])]
    if stages is not None:
        overrides.append(f"stages={[name.strip() for name in stages.split(',')]}")
    if seed is not None:
        overrides.append(f"seed={seed}")
    if seeds is not None:
        overrides.append(f"seeds={seeds}")
    if dry_run:
        from guiagent.cli.train.dry_run import dry_run as tell
        from guiagent.cli.train.dry_run import machine_of

        tell(recipe, overrides, machine_of(launch, processes, gpus, gpu_gib, turn_seconds))
        return
    if run is None:
        raise UsageError("say where the run is kept: --run FOLDER")
    from guiagent.cli.train.command import train as start

    start(recipe, run, overrides, launch or "process", processes, fork_from)


@app.command()
def demonstrate(
    run: Annotated[Path, typer.Option(help="Folder; its demonstrations are the store to learn from.")],
    recipe: Annotated[str, typer.Option(help="Recipe in stages: tasks, devices, policy.")] = "lab",
    overrides: Overrides = None,
) -> None:
    """Have the oracle of a taskset demonstrate its tasks on devices, in the words of a policy."""
    from guiagent.cli.train.recipes import demonstrate as start

    start(recipe, run, overrides or [])


@app.command()
def compare(
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Two folders of `guiagent eval` to compare, instead of training."),
    ] = None,
    presets: Annotated[
        str | None, typer.Option(help="Names of algorithms, separated by commas: an arm each.")
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            help="TOML file of arms, each overrides of the recipe; or collapse, curricula, lengths, replay."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each arm.")] = 5,
    recipe: Annotated[str, typer.Option(help="Recipe that all of them are trained on.")] = "arpo-demo",
    run: Annotated[Path, typer.Option(help="Folder of the runs. Finished runs are not repeated.")] = Path(
        "runs/compare"
    ),
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="Minutes of the first run; the others get as many environment steps as it took."
        ),
    ] = None,
    env_steps: Annotated[int | None, typer.Option(min=1, help="Environment steps of every run.")] = None,
    overrides: Overrides = None,
) -> None:
    """Train arms of a recipe on the same seeds and environment steps, and report how they differ; or compare
    two evaluations of the same suite."""
    from guiagent.cli.train.compare import compare as start

    if results:
        from guiagent.cli.evaluate.stored import compare_results

        if len(results) != 2 or presets is not None or arms is not None:
            raise UsageError("name two folders of evaluations, or --presets or --arms to train")
        before, after = results
        compare_results(before, after, run)
        return
    if (presets is None) == (arms is None):
        raise UsageError("say what is compared: --presets NAMES or --arms FILE")
    names = [name.strip() for name in (presets or "").split(",") if name.strip()]
    start(arms if arms is not None else names, seeds, recipe, run, minutes, env_steps, overrides or [])


@app.command()
def watch(
    run: Annotated[str, typer.Argument(help="Folder of the run, or the URL that it is mirrored to.")],
    export: Annotated[
        Path | None, typer.Option(help="Write the page into one file that opens from the disk, and end.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 0,
    pool: Annotated[
        str | None,
        typer.Option(help="Pool whose screens are shown: its address or state folder; the run's by default."),
    ] = None,
) -> None:
    """Serve a page of a run, while it trains and after: curves, health, episodes step by step, screens."""
    from guiagent.cli.train.watch import watch as serve

    serve(run, port, pool, export)


@app.command()
def seeds(
    experts: Annotated[Path, typer.Option(help="Trajectory store with an expert's successes.")],
    recipe: Annotated[
        str, typer.Option(help="Recipe that they are for: its policy, devices and history are used.")
    ],
    run: Annotated[Path, typer.Option(help="Folder of the results. An interrupted run is continued.")],
    attempts: Annotated[int, typer.Option(min=1, help="Attempts at a task under each expert's plan.")] = 8,
    overrides: Overrides = None,
) -> None:
    """Let a policy try tasks with an expert's plan in its prompt; keep its successes for a replay (BEPA)."""
    from guiagent.cli.train.seeds import seeds as start

    start(recipe, experts, run, attempts, overrides or [])


@app.command()
def select(
    evaluation: Annotated[
        Path, typer.Argument(help="Folder of one policy's results: the run of its evaluation.", exists=True)
    ],
    recipe: Annotated[str, typer.Option(help="Recipe of online RL whose tasks are replaced.")],
    to: Annotated[Path, typer.Option(help="TOML file of the new recipe.")],
    least: Annotated[int, typer.Option(min=1, help="Keep tasks that were solved at least so often.")] = 1,
    keep_mastered: Annotated[
        bool, typer.Option("--keep-mastered", help="Keep those that were solved each time, too.")
    ] = False,
) -> None:
    """Write a recipe of the tasks that a policy has a chance to learn, by its evaluation (ARPO)."""
    from guiagent.cli.train.selecting import select as start

    start(evaluation, recipe, to, least, keep_mastered)


@app.command("eval")
def evaluate(
    policy: Annotated[
        str | None, typer.Option(help="Checkpoint folder, tiny, http://HOST:PORT/v1#MODEL, or a baseline.")
    ] = None,
    suite: Annotated[str, typer.Option(help="Suite of frozen tasks and seeds.")] = "miniwob-demo",
    tasks: Annotated[
        str | None, typer.Option(help="Only these of its tasks: names or patterns (click-*), with commas.")
    ] = None,
    baselines: Annotated[
        str,
        typer.Option(
            help="all: play null, random, random-element and oracle too; none; or the folder of an earlier "
            "evaluation, whose results of them are shown."
        ),
    ] = "all",
    run: Annotated[Path, typer.Option(help="Folder of the results. An interrupted run is continued.")] = Path(
        "runs/eval"
    ),
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes per task; by default 50, or all that the suite has.")
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="Play everything so many times: spread, pass@k and pass^k.")
    ] = 1,
    verify: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an evaluation: play its recorded actions again, say if its figures hold."
        ),
    ] = None,
    devices: Annotated[
        int, typer.Option(min=1, max=256, help="Number of devices, and so of episodes at once.")
    ] = 8,
    temperature: Annotated[
        float, typer.Option(help="Sampling temperature of the policy; 0 is greedy.")
    ] = 1.0,
    max_steps: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Turns of an episode; by default each task's own.")
    ] = None,
    max_pixels: Annotated[
        int | None,
        typer.Option(min=1024, help="Pixels of a screenshot, at most, as a checkpoint sees it."),
    ] = None,
    zoom: Annotated[
        float | None,
        typer.Option(
            min=0.05,
            max=0.95,
            help="On pictures: measure the policy also when it points again in a crop of this share.",
        ),
    ] = None,
    guardrails: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of a pool's rules, or `suite` for the suite's own: measure behind them, too."
        ),
    ] = None,
    site: Annotated[
        list[str] | None,
        typer.Option(help="Address of a site of webarena:PATH: SHOPPING=http://HOST:7770; repeatable."),
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(help="TOML file with url and model of a server that compares answers of webarena:PATH."),
    ] = None,
    price_in: Annotated[
        float | None, typer.Option(min=0, help="Price of a million tokens of prompts: cost per success.")
    ] = None,
    price_out: Annotated[
        float | None, typer.Option(min=0, help="Price of a million tokens of replies.")
    ] = None,
    device: place.OnDevice = None,
    config: place.OfConfig = None,
    pool: place.OnPool = None,
    dialect: Dialect = "ui-tars",
    images: Images = None,
    experiences: Library = None,
) -> None:
    """Benchmark a policy on a suite beside the baselines: null, random, random-element and oracle."""
    from guiagent.cli.common.policy import PolicySettings, history_of, load_experiences
    from guiagent.cli.evaluate.command import Asked, chosen
    from guiagent.cli.evaluate.command import evaluate as start
    from guiagent.cli.evaluate.stored import verify as play_again

    if verify is not None:
        play_again(verify, devices, guardrails, site or [], judge)
        return
    if policy is None:
        raise UsageError("say who is measured: --policy, or --verify FOLDER")
    settings = PolicySettings(
        temperature=temperature,
        dialect=dialect,
        history=history_of(images),
        max_pixels=max_pixels,
        experiences=load_experiences(experiences),
    )
    where = place.Place(device, config, pool)
    asked = Asked(episodes, devices, baselines, runs, max_steps, zoom, price_in, price_out, where, guardrails)
    start(policy, chosen(suite, tasks, site or [], judge), run, settings, asked)


@app.command("run")
def run_task(
    instruction: Annotated[str, typer.Argument(help="Instruction to carry out, in words.")],
    url: Annotated[str, typer.Option(help="Page to start from.")],
    policy: Annotated[str, typer.Option(help="Checkpoint folder, tiny, or http://HOST:PORT/v1#MODEL.")],
    max_steps: Annotated[int, typer.Option(help="Largest number of turns.")] = 15,
    width: Annotated[int, typer.Option(min=64, max=4096, help="Width of the screen in pixels.")] = 1024,
    height: Annotated[int, typer.Option(min=64, max=4096, help="Height of the screen in pixels.")] = 768,
    temperature: Annotated[
        float, typer.Option(help="Sampling temperature of the policy; 0 is greedy.")
    ] = 0.0,
    dialect: Dialect = "ui-tars",
    images: Images = None,
    experiences: Library = None,
    run: Annotated[Path, typer.Option(help="Folder of the episode and its report.")] = Path("runs/run"),
) -> None:
    """Let a policy drive one browser."""
    from guiagent.cli.common.policy import PolicySettings, history_of, load_experiences
    from guiagent.cli.evaluate.drive import drive

    settings = PolicySettings(
        temperature=temperature,
        dialect=dialect,
        history=history_of(images),
        experiences=load_experiences(experiences),
    )
    drive(instruction, url, policy, max_steps, (width, height), settings, run)


@app.command()
def demo(
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of the run: runs/demo, or runs/demo-hours. What is there is continued."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Minutes of training; by default those of the recipe.")
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(help="Train for so long on browsers, made-to-order apps and virtual phones in one run."),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes per task and policy in each evaluation.")] = 30,
    port: Annotated[int, typer.Option(help="Port of the live page; 0 picks a free one.")] = 8700,
    overrides: Overrides = None,
) -> None:
    """Run the main job end to end: start browsers, train the small policy online, evaluate, report."""
    from guiagent.cli.train.demo import demo as start

    start(run, minutes, hours, episodes, port, overrides or [])


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
            print(f"guiagent: {plain_lines(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as done:
        if done.code == _INTERRUPTED:
            print("guiagent: interrupted; the same command goes on from here", file=sys.stderr)
        raise
