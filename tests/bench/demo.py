"""`python -m tests.bench.demo --runs 5`: the whole demo with several seeds; mean gain, spread, and its tasks.

Each run is `guiagent demo` itself, in a process of its own and a folder of its own, with the budget and the
held-out evaluation of `make demo`; only its seeds differ, of sampling and of the tasks that are rolled out. A
run that was cut goes on, a finished one is not repeated. Writes figures.md and figures.json.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from devices.config import BrowserConfig
from devices.drivers import browser
from eval.results import read_result, write_json
from eval.suites.demo import DEMO_APPS, DEMO_ROUNDS
from eval.suites.suite import joined
from guiagent.cli.common.provenance import commit
from guiagent.seeds import EVALUATION, REINFORCEMENT, of_run
from guiagent.storage.atomic import write_file
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from rewards.tasksets.miniwob.rounds import PAGE_OF
from tests.bench.demo_figures import DemoRun, figures, markdown
from tests.bench.layouts import Layout, layout

_ATTEMPTS = 3  # at a run that ends in an error; each goes on where the last one ended
_INTERRUPTED = (130, -2)
_LAYOUT_SEEDS = 30


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.demo", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=5, help="seeds 1 to this")
    parser.add_argument("--run", type=Path, default=Path("runs/demo-five"), help="folder of the runs")
    parser.add_argument("--minutes", type=float, help="of training; the recipe's own by default")
    parser.add_argument("--episodes", type=int, default=30, help="per task and policy in each evaluation")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as `guiagent demo` takes it"
    )
    asked = parser.parse_args()
    options = ["--episodes", str(asked.episodes)]
    options += [] if asked.minutes is None else ["--minutes", str(asked.minutes)]
    options += [part for change in asked.set for part in ("--set", change)]
    loads = []
    for seed in range(1, asked.runs + 1):
        print(f"run {seed} of {asked.runs}, in {asked.run / str(seed)}", flush=True)
        loads.append(os.getloadavg()[0])
        conduct(asked.run / str(seed), seed, options)
    runs = [read_run(asked.run / str(seed), seed) for seed in range(1, asked.runs + 1)]
    found = figures(runs, asyncio.run(layouts()))
    write_json(asked.run / "figures.json", {**found, "commit": commit(), "load": loads})
    text = markdown(found)
    write_file(asked.run / "figures.md", text.encode())
    print(f"\n{text}\n{asked.run / 'figures.md'}  {asked.run / 'figures.json'}")


def conduct(folder: Path, seed: int, options: Sequence[str]) -> None:
    """One demo, or what is left of it. Raises SystemExit where it fails again and again."""
    rollouts = of_run(REINFORCEMENT.start, seed)
    seeds = ["--set", f"seed={seed}", "--set", f"rollout.seed={rollouts}"]
    command = [
        sys.executable,
        "-m",
        "guiagent.cli",
        "demo",
        "--run",
        str(folder),
        "--port",
        "0",
        *options,
        *seeds,
    ]
    for _ in range(_ATTEMPTS):
        code = subprocess.run(command).returncode
        if code == 0:
            return
        if code in _INTERRUPTED:
            break
    sys.exit(f"the demo of seed {seed} ended with {code}; the same command goes on from here")


def read_run(folder: Path, seed: int) -> DemoRun:
    """A finished run from its folder."""
    suite = joined((DEMO_ROUNDS, DEMO_APPS))
    names = msgspec.json.decode((folder / "finished.json").read_bytes())["results"]
    before, after, *baselines = (read_result(folder / name, suite) for name in names)
    summary = msgspec.json.decode((folder / "summary.json").read_bytes())
    return DemoRun(seed, before, after, tuple(baselines), summary["wall_seconds"], summary["peak_memory_mb"])


async def layouts(tasks: Sequence[str] = DEMO_ROUNDS.tasks) -> Mapping[str, Layout]:
    """Of each task's page, over the first seeds of evaluation."""
    device = await browser.start(BrowserConfig(width=WIDTH, height=HEIGHT))
    try:
        seeds = EVALUATION[:_LAYOUT_SEEDS]
        pages = {page: await layout(device, page, seeds) for page in {PAGE_OF[task] for task in tasks}}
    finally:
        await device.close()
    return {task: pages[PAGE_OF[task]] for task in tasks}


if __name__ == "__main__":
    main()
