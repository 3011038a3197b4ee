"""Plays a suite by CUBE's own runner and over its wire; prints what came of it as JSON: cube_runs.py PART."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from cube.benchmark import BenchmarkConfig
from cube.client import BenchmarkClient, wait_for_server
from cube.core import Action
from cube.server import make_benchmark_rpc_server
from cube.task import TaskConfig
from cube.testing import run_debug_episode
from cube.tool import ToolConfig
from miniwob_cube import MINIWOB_CONFIGS

from eval.doors.cube.benchmark import SuiteBenchmarkConfig
from eval.doors.cube.seat import place_of
from eval.stepping import SuiteTasks
from examples.doors.cube_miniwob import get_debug_benchmark
from guiagent.actions import ACTIONS
from guiagent.client.device import LeasedDevice
from guiagent.client.sync import connect
from guiagent.errors import Fault, FaultError, GuiAgentError
from guiagent.types import ObserveSpec
from rewards.tasksets.lab import Lab

TASK = "reach-2"
LAB = SuiteBenchmarkConfig(suite="lab", devices=2).subset_from_list([TASK])
STOP = Action(name="final_step")
NOTHING = Action(name="wait", arguments={"ms": 0})


def solution(seed: int) -> list[Action]:
    """What the task's own oracle does, as calls of CUBE's tools, and the end."""

    async def read() -> list[Action]:
        calls = []
        task = Lab(oracle=True).task(TASK, seed)
        async with SuiteTasks("lab", "evaluation").lease(farm.client, "solution") as device:
            asked = ObserveSpec(frame="none", probes=dict(task.probes))
            _, shown = await task.setup(device, asked)
            while shown.probes["oracle"]:
                actions = ACTIONS.validate_python(shown.probes["oracle"])
                told = [one.model_dump(exclude={"modifiers"}) for one in actions]
                calls += [Action(name=one.pop("type"), arguments=one) for one in told]
                shown = await device.act(actions, asked)
        return calls

    with connect(devices=["lab=1@160x224"]) as farm:
        return [*farm.wait(read()), STOP]


def saying(*actions: Action) -> Any:
    """An agent that does these one after the other, and the last one for ever."""
    left = list(actions)
    return lambda observation, tools: left.pop(0) if len(left) > 1 else left[0]


def played(benchmark: Any, *actions: Action) -> list[Any]:
    (config,) = LAB.get_task_configs()
    report = run_debug_episode(benchmark.spawn(config), saying(*actions))
    return [report["reward"], report["done"], report["steps"], report["error"]]


def scores() -> dict[str, Any]:
    (config,) = LAB.get_task_configs()
    solved = solution(config.seed)
    wrong = Action(name="click", arguments={"x": -1, "y": 0})
    with LAB.make() as benchmark:
        return {
            "oracle": played(benchmark, *solved),
            "nothing": played(benchmark, STOP),
            "waiting": played(benchmark, NOTHING),
            "no action": played(benchmark, wrong, STOP),
        }


def together() -> dict[str, Any]:
    """Two tasks at once, each on a device of its own, until it is closed; what a closed one says."""
    (config,) = LAB.get_task_configs()
    with LAB.make() as benchmark, connect(benchmark._runtime_context["guiagent"]["pool"]) as farm:

        def held() -> list[str]:
            return [device.label for device in farm.devices().devices]

        one, two = benchmark.spawn(config), benchmark.spawn(config)
        unused = held()
        first, _ = one.reset()
        second, _ = two.reset()
        both, same = held(), first.model_dump() == second.model_dump()
        one.close()
        left = held()
        score = two.evaluate()[0]  # before the end: it ends there
        after = two.step(NOTHING)
        two.reset()
        again = asyncio.run(two.tool.async_execute_action(NOTHING)).error
        two.close()
        closed = two.step(NOTHING)
        return {
            "devices": [unused, both, left, held()],
            "same": same,
            "evaluated": [score, after.error.exception_str, after.done, again],
            "closed": closed.error.exception_str,
        }


def faults() -> dict[str, Any]:
    """A device that breaks in the middle of an episode, and what CUBE's runner makes of it."""
    (config,) = LAB.get_task_configs()
    act = LeasedDevice.act

    async def dark(*_: Any) -> None:
        raise FaultError(Fault("device", "crashed", "the screen went dark", retryable=True))

    def raised(work: Any) -> str:
        try:
            return f"nothing: {work()}"
        except GuiAgentError as error:
            return str(error)

    with LAB.make() as benchmark:
        LeasedDevice.act = dark  # type: ignore[method-assign, assignment]
        report = played(benchmark, NOTHING)
        task = benchmark.spawn(config)
        task.reset()
        said = [raised(lambda: task.step(NOTHING)), raised(task.evaluate), raised(lambda: task.step(STOP))]
        LeasedDevice.act = act  # type: ignore[method-assign]
        task.reset()
        mended = task.step(NOTHING).error
        task.close()
        stranger = SuiteBenchmarkConfig(suite="phone", pool="http://example.org")
        foreign = raised(lambda: next(iter(stranger.get_task_configs())).make(benchmark._runtime_context))
        seedless = raised(lambda: config.model_copy(update={"seed": 7}).make(benchmark._runtime_context))
    refused = [foreign, seedless.partition(":")[0]]
    return {"report": report, "raised": said, "mended": mended, "refused": refused}


def lost() -> dict[str, Any]:
    """CUBE's cube of MiniWoB++ on a leased browser whose lease is ended in the middle of a task."""
    with connect(devices=["browser=1@800x600,cdp"]) as farm:
        pool = place_of(None, farm.endpoint)
        benchmark = get_debug_benchmark().subset_from_list(["click-button"])
        browser = benchmark.tool_config.browser.model_copy(update={"pool": pool})
        tool = benchmark.tool_config.model_copy(update={"browser": browser})
        assert ToolConfig.model_validate_json(tool.model_dump_json()) == tool

        def agent(observation: Any, tools: Any) -> Action:
            seen.extend(device.label for device in farm.devices().devices)
            farm.wait(farm.client.quarantine("browser-0", "a test of doors"))
            return STOP

        seen: list[str] = []
        with benchmark.model_copy(update={"tool_config": tool}).make() as running:
            (config,) = running.config.get_task_configs()
            report = run_debug_episode(running.spawn(config), agent)
    return {"labels": seen, "reward": report["reward"], "done": report["done"], "error": report["error"]}


def browsergym() -> dict[str, Any]:
    """CUBE's own configuration of MiniWoB++, with BrowserGym's actions, on a leased browser."""
    debug = get_debug_benchmark()
    tool = MINIWOB_CONFIGS["default"].tool_config.model_copy(update={"browser": debug.tool_config.browser})
    benchmark = debug.subset_from_list(["click-button"]).model_copy(update={"tool_config": tool})

    def agent(observation: Any, tools: Any) -> Action:
        page = "\n".join(str(one.data) for one in observation.contents)
        wanted = re.search(r'Click on the "(.+?)" button', page)
        assert wanted is not None, page
        button = re.search(rf'bid="(\d+)"[^>]*>\s*{re.escape(wanted[1])}', page)
        assert button is not None, page
        return Action(name="click", arguments={"bid": button[1]})

    with benchmark.make() as running:
        (config,) = running.config.get_task_configs()
        report = run_debug_episode(running.spawn(config), agent, max_steps=1)
    return {name: report[name] for name in ("reward", "done", "error")}


def wire() -> dict[str, Any]:
    """The benchmark's server and a task's, each a process of its own, and CUBE's clients."""
    (config,) = LAB.get_task_configs()
    assert TaskConfig.model_validate_json(config.model_dump_json()) == config
    assert BenchmarkConfig.model_validate_json(LAB.model_dump_json()) == LAB
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server, url = make_benchmark_rpc_server(LAB, port=port)
    try:
        wait_for_server(url)
        client = BenchmarkClient(url)
        (described,) = client.task_configs()
        task = client.spawn(described)
        first = task.reset()
        done = [task.step(one.name, one.arguments) for one in solution(described["seed"])][-1]
        scored = task.evaluate()
        task.close()
        return {
            "info": client.info()["name"],
            "tools": [tool["name"] for tool in task.tools_list()][:3],
            "contents": [one["_type"] for one in first["obs"]["contents"]],
            "done": [done["reward"], done["done"], scored["reward"]],
        }
    finally:
        for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGTERM)  # the task's server, which outlives its client
        server.terminate()
        server.join()


if __name__ == "__main__":
    parts = (scores, together, faults, lost, browsergym, wire)
    print(json.dumps({part.__name__: part for part in parts}[sys.argv[1]]()))
