"""cua's agent drives a leased browser: its loops know many models, the browser and its limits are the farm's.

$CUA_MODEL names the model as litellm does, such as openai/UI-TARS-1.5-7B with $OPENAI_API_BASE.
"""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from cua_agent import ComputerAgent

import guiagent
from guiagent.client.sync_device import SyncDevice
from guiagent.dialects import find_dialect

PAGE = """data:text/html,<title>not yet</title><body style="margin: 0">
<button style="position: absolute; inset: 40%" onclick="document.title = 'pressed'">press me</button>"""
TASK = "Press the button, then say that it is pressed."
NOTCH = -100  # pixels of a wheel's notch; cua counts notches, upwards
# The functions of cua's computer, and their arguments in order. OpenAI's tool has the same actions.
FUNCTIONS = {
    "click": ("x", "y", "button"),
    "double_click": ("x", "y"),
    "move": ("x", "y"),
    "scroll": ("x", "y", "scroll_x", "scroll_y"),
    "type": ("text",),
    "keypress": ("keys",),
    "drag": ("path",),
    "wait": (),
}


def computer(device: SyncDevice, size: tuple[int, int]) -> dict[str, Any]:
    """The device as cua's custom computer."""
    dialect = find_dialect("openai-computer")

    def does(name: str) -> Callable[..., None]:
        def act(*given: Any) -> None:
            said = {"type": name, **dict(zip(FUNCTIONS[name], given, strict=False))}
            if name == "scroll":
                said |= {"scroll_x": -NOTCH * said["scroll_x"], "scroll_y": NOTCH * said["scroll_y"]}
            shown = device.act(*dialect.parse(json.dumps(said), size))
            print(name, *given, shown.action_error or "")

        return act

    return {
        "screenshot": lambda: device.observe().frame,
        "dimensions": size,
        "environment": "browser",
        **{name: does(name) for name in FUNCTIONS},
    }


async def run(device: SyncDevice, size: tuple[int, int]) -> None:
    model = os.environ.get("CUA_MODEL", "openai/UI-TARS-1.5-7B")
    agent = ComputerAgent(model, [computer(device, size)], screenshot_delay=0, telemetry_enabled=False)
    async for result in agent.run(TASK):
        for item in result["output"]:
            if item["type"] == "message" and (said := item["content"][0].get("text")):
                print("the agent says:", said)


with guiagent.connect(devices=["browser=1@1280x800"]) as farm, farm.lease("browser") as device:
    shown = device.open(PAGE)
    asyncio.run(run(device, (shown.width, shown.height)))
    print("the page is now called", device.observe(page=True).title)
