"""Find recipes by name, and carry out those that are not online RL: warm starts, fine-tuning, judges."""

import asyncio
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import BaseModel
from rich.console import Console

from eval.report.breakdown import print_results
from eval.results import SuiteResult
from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.common.farm import own_farm
from guiagent.cli.common.policy import PolicySettings, open_policy
from guiagent.cli.common.progress import StageLine, fit_line
from guiagent.cli.common.stopping import stoppable
from guiagent.cli.common.terminal import terminal
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.train import Launch
from guiagent.client import FarmClient
from guiagent.dialects import find_dialect
from guiagent.errors import UsageError, nearest
from guiagent.storage.trajectories import TrajectoryStore
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from training.config import EvaluationConfig, ExperienceConfig, JudgeFitConfig, SftConfig, WarmStartConfig
from training.experience.library import Experiences
from training.stages import StagesConfig

if TYPE_CHECKING:
    from training.distributed.parallel import Distributed


def recipe_path(recipe: str) -> Path:
    """Find a recipe: a TOML file, or a shipped one by its name. Raises UsageError if there is none."""
    shipped = Path(str(files("training") / "recipes"))
    for path in (Path(recipe), shipped / f"{recipe}.toml"):
        if path.is_file():
            return path
    known = sorted(path.stem for path in shipped.glob("*.toml"))
    ways = f": name a TOML file or one of {', '.join(known)}"
    raise UsageError(f"no recipe {recipe!r}{nearest(recipe, known) or ways}")


class Launching(NamedTuple):
    """The asked way to start a recipe. `arguments` are of the command that each of several processes runs."""

    by: Launch = "process"
    processes: int = 2
    arguments: Sequence[str] = ()


_HERE = Launching()


class Collecting(Protocol):
    """The first part of a recipe that plays episodes and then fits a model to them."""

    async def __call__(
        self, farm: FarmClient, store: TrajectoryStore, config: Any, on_progress: Callable[[Any], None]
    ) -> None: ...


def _collect_and_fit(
    collect: Collecting,
    fit: Callable[[Path, Any, Callable[[Any], None]], Path],
    config: WarmStartConfig | JudgeFitConfig,
    episodes: Path,
    wanted: int,
    console: Console,
) -> Path:
    """Play the `wanted` episodes into the store `episodes`, fit a model to them, and return its folder."""
    name = episodes.name

    async def play() -> None:
        with TrajectoryStore(episodes) as store, StageLine(console, "1/2", "collect") as line:
            if len(store) >= wanted:
                return line.update(f"{len(store):,} {name} are there already")
            async with own_farm(config.devices, WIDTH, HEIGHT) as farm:
                await collect(
                    farm.client, store, config, lambda p: line.update(f"{p.done:,} of {p.total:,} {name}")
                )

    asyncio.run(play())
    with StageLine(console, "2/2", "fit") as line:
        return fit(
            episodes.parent,
            config,
            lambda p: line.update(f"step {p.done:,} of {p.total:,}  loss {p.loss:.3f}"),
        )


def _warm_start(config: WarmStartConfig, run: Path, console: Console) -> None:
    from training.tiny import warm_start as making

    episodes = run / making.EPISODES
    policy = _collect_and_fit(making.collect, making.fit, config, episodes, config.demonstrations, console)
    console.print(f"the small policy is {policy}", soft_wrap=True)


def _fit_judge(config: JudgeFitConfig, run: Path, console: Console) -> None:
    from training.tiny import judge_fit as making

    episodes = run / making.EPISODES
    judge = _collect_and_fit(making.collect, making.fit, config, episodes, config.labelled, console)
    console.print(f"the small judge is {judge}", soft_wrap=True)


def _fine_tune(config: SftConfig, run: Path, console: Console, launching: Launching = _HERE) -> None:
    if launching.by == "ray":
        raise UsageError("fine-tuning has no rollouts for a Ray cluster: --launch torchrun shares it out")
    if launching.by == "process":
        _fine_tuned(config, run, console)
        return
    from training.launch import torchrun

    if not torchrun.launched():
        torchrun.start(launching.processes, launching.arguments)
        return
    with torchrun.joined_alike() as ranks:
        _fine_tuned(config, run, console, ranks)


def _fine_tuned(config: SftConfig, run: Path, console: Console, ranks: "Distributed | None" = None) -> None:
    import torch

    from training.sft import train as sft

    torch.set_num_threads(1)
    find_dialect(config.dialect)
    if ranks is not None and ranks.rank:
        with stoppable(quietly=True) as stop:
            sft.fine_tune(config, run, lambda _: None, ranks, stop)
        return
    with StageLine(console, "1/1", "fit") as line, stoppable() as stop:
        fitted = sft.fine_tune(config, run, lambda progress: line.update(fit_line(progress)), ranks, stop)
    assert fitted is not None, "rank 0 has what came of it"
    for refused in fitted.refused:
        console.print(f"passed over a damaged checkpoint: {refused}", soft_wrap=True)
    if fitted.before:
        done = (
            f"this run is finished: step {fitted.step} of {config.steps}; to go on, raise it: --set steps=..."
        )
        console.print(done, soft_wrap=True, highlight=False)
    console.print(f"the policy is {fitted.policy}", soft_wrap=True)


def _learn_and_measure(config: ExperienceConfig, run: Path, console: Console) -> None:
    from training.experience import library

    library_file = run / "experiences.jsonl"
    if config.evaluation is None:
        asyncio.run(_learn_experiences(config, run, console, "1/1"))
    else:
        before = asyncio.run(_measure(config, config.evaluation, run, console, "1/3", "before"))
        asyncio.run(_learn_experiences(config, run, console, "2/3"))
        learned = library.read(library_file)
        after = asyncio.run(_measure(config, config.evaluation, run, console, "3/3", "after", learned))
        print_results([before, after], console)
    console.print(f"the experiences are {library_file}", soft_wrap=True)


async def _learn_experiences(config: ExperienceConfig, run: Path, console: Console, number: str) -> None:
    from rewards.judges.model_server import ModelServer
    from training.experience import distill

    server = ModelServer(config.server)
    try:
        async with (
            open_policy(config.policy, _settings(config)) as policy,
            own_farm(config.devices, WIDTH, HEIGHT) as farm,
        ):
            with StageLine(console, number, "learn") as line:
                await distill.learn(
                    config,
                    run,
                    farm.client,
                    policy,
                    server,
                    lambda p: line.update(
                        f"{p.groups:,} of {p.of:,} groups  success {p.success:5.1%}  "
                        f"{p.experiences} experiences  {p.unreadable} answers unreadable"
                    ),
                )
    finally:
        await server.close()


async def _measure(
    config: ExperienceConfig,
    evaluation: EvaluationConfig,
    run: Path,
    console: Console,
    number: str,
    label: str,
    experiences: Experiences | None = None,
) -> SuiteResult:
    """Measure the policy on the suite, with the experiences in its prompt or without."""
    suite, settings = find_suite(evaluation.suite, evaluation.tasks), _settings(config, experiences)
    folder = run / "eval" / (label if experiences is None else f"{label}-{experiences.digest[:8]}")
    async with own_farm(config.devices, *suite.screen, kind=suite.device) as farm:
        evaluator = Evaluator(suite, farm.client, config.devices, settings)
        with StageLine(console, number, label) as line:
            return await evaluator.measure(config.policy, label, folder, evaluation.episodes, line)


def _settings(config: ExperienceConfig, experiences: Experiences | None = None) -> PolicySettings:
    return PolicySettings(temperature=config.temperature, dialect=config.dialect, experiences=experiences)


def demonstrate(recipe: str, run: Path, overrides: Sequence[str]) -> None:
    """Play what is left of the demonstrations of a recipe in stages into the folder `run`."""
    from guiagent.cli.train import stages

    stages.demonstrate(configuration.load(StagesConfig, recipe_path(recipe), overrides), run, terminal())


def _in_stages(config: StagesConfig, run: Path, console: Console) -> None:
    from guiagent.cli.train.stages import train_in_stages

    train_in_stages(config, run, console)


def _alone(recipe: str, work: Callable[[Any, Path, Console], None]) -> Callable[..., None]:
    """Return `work` for `OTHER_RECIPES`, which raises UsageError if it is launched in another way."""

    def work_here(config: Any, run: Path, console: Console, launching: Launching = _HERE) -> None:
        if launching.by != "process":
            raise UsageError(f"{recipe} is the work of one process: leave out --launch {launching.by}")
        work(config, run, console)

    return work_here


# Recipes that are not of reinforcement learning, by the key that only their config has: the config, and the
# function that is called with it, the run's folder, a console and a `Launching`.
OTHER_RECIPES: dict[str, tuple[type[BaseModel], Callable[..., None]]] = {
    "stages": (StagesConfig, _alone("a recipe in stages", _in_stages)),
    "demonstrations": (WarmStartConfig, _alone("a warm start", _warm_start)),
    "labelled": (JudgeFitConfig, _alone("fitting the small judge", _fit_judge)),
    "store": (SftConfig, _fine_tune),
    "experiences": (ExperienceConfig, _alone("learning experiences", _learn_and_measure)),
}
