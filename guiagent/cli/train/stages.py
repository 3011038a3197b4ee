"""Carry out a recipe in stages: demonstrations, fine-tuning, and online RL, with a measurement after each.

All of it is in one folder: `demonstrations`, a run for each stage, and `eval`. The same command goes on in
the stage in which it was stopped.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from eval.report.breakdown import print_results
from eval.report.seeds import over_seeds_json, print_over_seeds
from eval.results import SuiteResult, result_json, write_json
from eval.seeds import over_seeds
from eval.suites import find_suite
from eval.suites.suite import Suite
from guiagent.cli.common.farm import Farm, farm_of, own_farm
from guiagent.cli.common.policy import PolicySettings
from guiagent.cli.common.progress import StageLine, fit_line
from guiagent.cli.common.stopping import stoppable
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.train.experiment import ShowTraining
from guiagent.cli.train.launch import TrainHere, require_possible
from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore
from training.checkpoints.mirror import RunFolder
from training.config import PlatformConfig, TrainConfig, checkpoint_folder
from training.identity import claim, require_same
from training.stages import DEMONSTRATIONS, STAGES, Shown, StageName, StagesConfig

if TYPE_CHECKING:
    from training.train import Trained


class Reached(NamedTuple):
    """A policy, and the optimiser steps of its stage."""

    policy: str
    step: int


def train_in_stages(config: StagesConfig, run: Path, console: Console) -> None:
    """Carry out what is left of the stages, measure the policy before them and after each, and tell.

    With several seeds each has a folder below `run`, and what is told at the end are means over them.

    Raises UsageError or InfrastructureError for what can be known before a device is started.
    """
    if config.seeds == 1:
        _one_run(config, run, console)
        return
    runs = []
    for one in config.of_seeds():
        console.print(f"seed {one.seed}", highlight=False)
        runs.append(_one_run(one, run / str(one.seed), console))
    measured, found = [result.label for result in runs[0]], over_seeds(runs)
    console.print(f"means over {len(runs)} seeds", highlight=False)
    print_over_seeds(found, measured, console)
    write_json(run / "stages.json", over_seeds_json(found, measured))


def _one_run(config: StagesConfig, run: Path, console: Console) -> list[SuiteResult]:
    """Carry out the stages with one seed. Returns what was measured before them and after each."""
    suite = _possible(config, run)
    count = len(config.stages)
    config = _with_base(config, run, console, f"0/{count}")
    found = [_measured(config, suite, run, "before", Reached(config.policy, 0), console, f"0/{count}")]
    for number, name in enumerate(config.stages, 1):
        at = f"{number}/{count}"
        reached = _carried_out(config, run, name, console, at)
        found.append(_measured(config, suite, run, name, reached, console, at))
    print_results(found, console)
    write_json(run / "stages.json", {result.label: result_json(result) for result in found})
    console.print(f"the policy is {reached.policy}", soft_wrap=True)
    return found


def demonstrate(config: StagesConfig, run: Path, console: Console) -> None:
    """Play what is left of the demonstrations into the folder `run`, and say how to learn from them.

    Raises UsageError for a task without an oracle, or a run of other demonstrations.
    """
    config.require_consistent()
    _require_shown(config, run)
    _demonstrate(config, run, console, "1/1")
    learn = f"guiagent train --recipe sft-successes --set store={run / DEMONSTRATIONS}"
    console.print(f"to learn from them: {learn} --run FOLDER", soft_wrap=True, highlight=False)


def _possible(config: StagesConfig, run: Path) -> Suite:
    """Return the suite. Raises what is wrong with the recipe, before anything is started or written."""
    config.require_consistent()
    measured = config.evaluation
    suite = find_suite(measured.suite, measured.tasks)
    suite.seeds(measured.episodes)
    if suite.device != config.device.kind:
        raise UsageError(
            f"the suite {measured.suite} needs devices of the kind {suite.device}, and the recipe has "
            f"{config.device.kind}: give both the same"
        )
    checkpoint_folder(config.policy)
    if config.base is not None:
        require_same(run / "base", config.base)
    for name in config.stages:
        if name == "sft":
            _require_shown(config, run)
        elif name == "adapt":
            _require_shown(config.adaptation(config.policy), run / name)
        else:
            require_possible(config.reinforcement(name, config.policy))
    return suite


def _require_shown(config: StagesConfig, run: Path) -> None:
    from training.sft.demonstrations import demonstrable

    for platform, _ in config.shown_on(1):
        demonstrable(platform)
    require_same(run, Shown.of(config))


def _demonstrate(config: StagesConfig, run: Path, console: Console, at: str) -> None:
    from training.inputs.encoder import Encoder
    from training.sft import demonstrations

    total = config.demonstrations.episodes
    dialect = Encoder(checkpoint_folder(config.policy), config.dialect, config.max_pixels).dialect

    async def play() -> None:
        with TrajectoryStore(run / DEMONSTRATIONS) as store, StageLine(console, at, "show") as line:
            if len(store) < total:
                for platform, planned in demonstrations.plan(config):
                    if all(one.id in store for one in planned):
                        continue  # its devices are not needed any more
                    async with _farm_of(platform) as farm:
                        await demonstrations.demonstrate(
                            farm.client,
                            store,
                            platform,
                            planned,
                            dialect,
                            config.demonstrations.careless,
                            lambda n: line.update(f"{n:,} of {total:,}"),
                        )
            successes = sum(one.success for one in store)
            line.update(f"{successes:,} of {len(store):,} demonstrations succeeded")

    run.mkdir(parents=True, exist_ok=True)
    claim(run, Shown.of(config))
    asyncio.run(play())


def _farm_of(platform: PlatformConfig) -> AbstractAsyncContextManager[Farm]:
    device = platform.device
    return own_farm(platform.devices, device.width, device.height, kind=device.kind)


def _with_base(config: StagesConfig, run: Path, console: Console, at: str) -> StagesConfig:
    """Return the config whose stages begin with the base; make that first, if the folder has none."""
    from training.sft import base, screens

    if config.base is None:
        return config
    _demonstrate(config, run, console, at)
    folder, made = run / "base", config.base
    folder.mkdir(exist_ok=True)
    claim(folder, made)

    async def see() -> None:
        seen = list[screens.Screen]()
        with StageLine(console, at, "look") as line:
            for platform, tasks in screens.plan(config, made.screens):
                async with _farm_of(platform) as farm:
                    seen += await screens.look(
                        farm.client, platform, tasks, partial(_told_of_screens, line, len(seen), made.screens)
                    )
            screens.save(folder / base.SCREENS, seen)

    if not (folder / base.SCREENS).exists():
        asyncio.run(see())
    if not (folder / base.POLICY).exists():
        with StageLine(console, at, "base") as line:
            base.fit(
                folder,
                run / DEMONSTRATIONS,
                config,
                lambda what, step, loss: line.update(f"{what}: step {step:,}  loss {loss:.3f}"),
            )
    return config.model_copy(update={"policy": str(folder / base.POLICY)})


def _told_of_screens(line: StageLine, before: int, total: int, found: int) -> None:
    line.update(f"{before + found:,} of {total:,}")


def _carried_out(config: StagesConfig, run: Path, name: StageName, console: Console, at: str) -> Reached:
    if name == "sft":
        return _sft(config, run, name, console, at)
    policy = _begins_with(config, run, name)
    if name == "adapt":
        return _sft(config.adaptation(policy), run / name, name, console, at)
    return _rl(config.reinforcement(name, policy), run, name, console, at)


def _sft(config: StagesConfig, run: Path, name: StageName, console: Console, at: str) -> Reached:
    from training.sft.processes import fine_tune_here

    _demonstrate(config, run, console, at)
    with StageLine(console, at, name) as line, stoppable() as stop:
        fitted = fine_tune_here(
            config.fine_tuning(run),
            run / "sft",
            config.processes,
            lambda progress: line.update(fit_line(progress)),
            stop,
        )
    return Reached(str(fitted.policy), fitted.step)


def _rl(stage: TrainConfig, run: Path, name: StageName, console: Console, at: str) -> Reached:
    from training.launch.resuming import standing

    done = standing(stage, run / name).finished or asyncio.run(_train(stage, run / name, name, console, at))
    return Reached(str(done.policy), done.step)


def _begins_with(config: StagesConfig, run: Path, name: StageName) -> str:
    """Return the policy of the last stage before this one that the folder has; else the recipe's own.

    Raises UsageError if that stage has gone on since this one began.
    """
    from training.launch import forking

    before = [run / one for one in STAGES[: STAGES.index(name)] if (run / one / "checkpoints").is_dir()]
    if not before:
        return config.policy
    policy = forking.forked_policy(run / name, before[-1])
    origin = forking.origin_of(run / name) or {}
    newest = (before[-1] / "checkpoints" / "latest").resolve().name
    if origin.get("checkpoint") != newest:
        raise UsageError(
            f"{run / name} began with {origin.get('checkpoint')} of {before[-1]}, which has {newest} by now: "
            f"remove {run / name}, or take another --run"
        )
    return str(policy)


async def _train(stage: TrainConfig, folder: Path, name: str, console: Console, at: str) -> "Trained":
    async with farm_of(stage) as farm:
        with StageLine(console, at, name) as line:
            return await TrainHere(stage, RunFolder(folder))(farm, ShowTraining(console, line))


def _measured(
    config: StagesConfig, suite: Suite, run: Path, name: str, reached: Reached, console: Console, at: str
) -> SuiteResult:
    """Measure a policy as `multi` samples it, on the recipe's own screens; what was measured is not again."""
    settings = PolicySettings.of_training(config.reinforcement("multi", config.policy))
    out = run / "eval" / (f"{name}-{reached.step}" if reached.step else name)

    async def measure() -> SuiteResult:
        size = (config.device.width, config.device.height)
        async with own_farm(config.devices, *size, kind=suite.device) as farm:
            evaluator = Evaluator(suite, farm.client, config.devices, settings)
            with StageLine(console, at, "measure") as line:
                return await evaluator.measure(reached.policy, name, out, config.evaluation.episodes, line)

    return asyncio.run(measure())
