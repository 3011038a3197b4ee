"""The whole loop of the demo's training beside an earlier commit of this project, and what an episode costs.

Both arms are `guiagent train` on the demo's recipe, the earlier one from a worktree of its own, in turns:
twelve browsers, a pool, an engine and a learner. A window of each run is measured, which begins some seconds
after its first update, when all browsers have loaded their pages. Beside the pace stand CPU seconds of all
its processes, which say the same on a machine that does something else, too. The limit is the browsers alone:
as many, driven from this process by clicks at random, with no pool, no policy and nobody who learns.

The share of successes in the window and how many steps an episode takes stand in the notes: who learns to do
its tasks in fewer steps plays more episodes.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

from devices.config import BrowserConfig
from devices.drivers import browser
from devices.drivers.browser.device import BrowserDevice
from guiagent.actions import Click
from guiagent.types import ObserveSpec
from rewards.tasksets.miniwob import HEIGHT, TRAIN_TASKS, WIDTH, MiniWob
from tests.bench.peers import PeerMissing
from tests.bench.rows import Arm, Row, against, interleave, noted, reported

BEFORE = "48869b1"
DEVICES, GROUP = 12, 8
WARM_UP_S, WINDOW_S, START_S = 10.0, 40.0, 180.0
ALONE_S = 15.0
_ROOT = Path(__file__).resolve().parents[2]
_DRAW, _LOAD = "HeadlessExperimental.beginFrame", "Page.navigate"


@dataclass(frozen=True)
class Window:
    """What a run did in the window: rates a second, CPU milliseconds an episode by who used them."""

    episodes: float
    updates: float
    steps: float  # of an episode
    success: float
    cpu: Mapping[str, float]


@dataclass
class Runs:
    """The runs of one checkout, a round each."""

    checkout: Callable[[], Path]
    windows: list[Window] = field(default_factory=list)

    def measure(self) -> float:
        self.windows.append(_train(self.checkout()))
        return self.windows[-1].episodes

    def arm(self, figure: Callable[[Window], float], missing: str) -> Arm:
        return Arm.of(*map(figure, self.windows), missing=missing)

    @property
    def note(self) -> str:
        cpu = {
            who: median(w.cpu.get(who, 0.0) for w in self.windows) for who in ("browsers", "pool", "trainer")
        }
        used = ", ".join(f"{who} {ms:.0f}" for who, ms in cpu.items())
        steps, success = fmean(w.steps for w in self.windows), fmean(w.success for w in self.windows)
        return f"CPU ms an episode: {used}; {steps:.2f} steps, success {success:.0%}"


def rows(rounds: int) -> Iterator[Row]:
    with ExitStack() as held:
        before, now = Runs(cache(lambda: _worktree(held))), Runs(lambda: _ROOT)
        alone: list[_Alone] = []

        def floor() -> float:
            alone.append(asyncio.run(_alone()))
            return alone[-1].episodes

        ours, peer, limit = Arm(now.measure), Arm(before.measure), Arm(floor)
        interleave(rounds, ours, peer, limit)
    notes = now.note if peer.missing else f"{now.note}; at {BEFORE}: {before.note}"
    yield noted(against(f"the demo's loop, against {BEFORE}", "episodes/s", ours, peer, 2), notes)
    for name, unit, figure, less in (
        ("the demo's loop", "updates/s", lambda w: w.updates, False),
        ("CPU of an episode, all processes", "ms", lambda w: sum(w.cpu.values()), True),
        ("CPU of an episode, its browser", "ms", lambda w: w.cpu["browsers"], True),
    ):
        mine, theirs = now.arm(figure, ours.missing), before.arm(figure, peer.missing)
        yield against(f"{name}, against {BEFORE}", unit, mine, theirs, 2, less=less)
    yield noted(
        reported("the demo's loop (limit: its browsers alone)", "episodes/s", ours, limit=limit),
        f"the limit of {DEVICES} browsers, a click at random for each step",
    )
    for name, unit in (("frames", "draws"), ("pages", "loads"), ("commands", "calls"), ("pipe", "bytes")):
        arm = Arm.of(*(one.each[unit] for one in alone))
        yield reported(f"an episode on a browser alone: {name}", unit, arm)


def _worktree(held: ExitStack) -> Path:
    """A worktree of the earlier commit, removed at the end. Raises PeerMissing if there is no such commit."""
    checkout = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="guiagent-before-"))) / BEFORE
    command = ["git", "-C", str(_ROOT), "worktree"]
    add = [*command, "add", "--detach", str(checkout), BEFORE]
    made = subprocess.run(add, capture_output=True, text=True)
    if made.returncode:
        raise PeerMissing(f"no worktree of {BEFORE}: {made.stderr.strip().splitlines()[-1]}")
    held.callback(subprocess.run, [*command, "remove", "--force", str(checkout)], capture_output=True)
    return checkout


def _train(checkout: Path) -> Window:
    """A run of this checkout's trainer, ended after the window."""
    with tempfile.TemporaryDirectory(prefix="guiagent-loop-") as folder:
        run = Path(folder) / "run"
        command = ["train", "--recipe", "arpo-demo", "--run", str(run), "--set", "minutes=60"]
        environment = os.environ | {"PYTHONPATH": str(checkout), "PYTHONWARNINGS": "ignore"}
        with (Path(folder) / "log").open("w+") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "guiagent.cli", *command],
                cwd=checkout,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return _watch(child, run / "metrics.jsonl")
            except _NoUpdate as error:
                log.seek(0)
                said = log.read().strip().splitlines() or ["it said nothing"]
                raise PeerMissing(f"{error}: {said[-1][:200]}") from error
            finally:
                child.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(60)
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()


class _NoUpdate(Exception):
    """The run ended, or made no update in time."""


def _watch(child: "subprocess.Popen[bytes]", metrics: Path) -> Window:
    began = time.monotonic()
    first: tuple[int, Counter[str]] | None = None
    ready = 0.0
    while True:
        time.sleep(0.25)
        if child.poll() is not None:
            raise _NoUpdate(f"the run ended with {child.returncode}")
        lines = _lines(metrics)
        if first is None:
            if time.monotonic() - began > START_S:
                raise _NoUpdate(f"no update within {START_S:.0f} s")
            if lines and not ready:
                ready = time.monotonic()
            if ready and time.monotonic() - ready >= WARM_UP_S:
                first = len(lines) - 1, _cpu(child.pid)
        elif lines[-1]["seconds"] - lines[first[0]]["seconds"] >= WINDOW_S:
            return _window(lines[first[0] :], _cpu(child.pid) - first[1])


def _window(lines: list[dict[str, Any]], cpu: Counter[str]) -> Window:
    """The figures of the updates after the first line; `cpu` was used meanwhile."""
    first, last = lines[0], lines[-1]
    episodes, seconds = last["episodes"] - first["episodes"], last["seconds"] - first["seconds"]
    return Window(
        episodes / seconds,
        (last["step"] - first["step"]) / seconds,
        (last["env_steps"] - first["env_steps"]) / episodes,
        fmean(line["success"] for line in lines[1:]),
        {who: 1000 * used / episodes for who, used in cpu.items()},
    )


def _lines(metrics: Path) -> list[dict[str, Any]]:
    """The updates that were written down so far."""
    with contextlib.suppress(FileNotFoundError):
        return [
            json.loads(line) for line in metrics.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
    return []


def _cpu(root: int) -> Counter[str]:
    """CPU seconds of a process and its descendants so far, by what they are."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            number = int(stat.parent.name)
            parents.setdefault(int(fields[1]), []).append(number)
            used[number] = sum(map(int, fields[11:15])) / tick  # its own, and that of children that ended
    found: Counter[str] = Counter()
    waiting = [root]
    while waiting:
        number = waiting.pop()
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{number}/cmdline").read_bytes()
            who = "trainer" if number == root else "browsers"
            if b"guiagent.cli\0up" in command or b"guiagent.cli\0host" in command:
                who = "pool"
            found[who] += used.get(number, 0.0)
        waiting += parents.get(number, [])
    return found


@dataclass(frozen=True)
class _Alone:
    """Browsers with nothing but clicks to do: episodes a second, and what each asked of its browser."""

    episodes: float
    each: Mapping[str, float]


async def _alone() -> _Alone:
    async with AsyncExitStack() as stack:
        devices = [await _start(stack) for _ in range(DEVICES)]
        await asyncio.gather(
            *(_play(device, number, time.monotonic() + 3) for number, device in enumerate(devices))
        )
        before = [(device.connection.sent.copy(), device.connection.bytes) for device in devices]
        began = time.monotonic()
        played = await asyncio.gather(
            *(_play(device, number, began + ALONE_S) for number, device in enumerate(devices))
        )
        seconds, episodes = time.monotonic() - began, sum(played)
        each: Counter[str] = Counter()
        for device, (sent, size) in zip(devices, before, strict=True):
            spent = device.connection.sent - sent
            each.update(draws=spent[_DRAW], loads=spent[_LOAD], calls=spent.total())
            each["bytes"] += device.connection.bytes - size
    return _Alone(episodes / seconds, {unit: count / episodes for unit, count in each.items()})


async def _start(stack: AsyncExitStack) -> BrowserDevice:
    device = await browser.start(BrowserConfig(width=WIDTH, height=HEIGHT))
    stack.push_async_callback(device.close)
    return device


async def _play(device: BrowserDevice, number: int, until: float) -> int:
    """Episodes of groups of a page each, played until then; their number."""
    rng, tasks, played = random.Random(number), MiniWob(), 0
    while time.monotonic() < until:
        page = rng.choice(TRAIN_TASKS)
        for _ in range(GROUP):
            task = tasks.task(page, rng.randrange(1000))
            _, shown = await task.setup(device, ObserveSpec())
            spec = ObserveSpec(probes=dict(task.probes))
            for _ in range(task.max_steps):
                shown = await device.act([Click(x=rng.randrange(WIDTH), y=rng.randrange(50, HEIGHT))], spec)
                if task.ended(shown):
                    break
            played += 1
    return played
