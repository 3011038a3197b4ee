"""The desktop: frames, clicks, starts and resets; and a step beside OSWorld's way of making one.

OSWorld's way (desktop-env 1.0.2, `DesktopEnv.step`): the action as `python -c "import pyautogui; ..."` over
the guest's HTTP server, a pause of two seconds, then the screen as PNG from the same server. Here that server
is ours (`devices.guest`), on the same desktop, so that the ratio is of the ways and not of two machines.
"""

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import cycle

from PIL import Image

from devices.config import DesktopConfig
from devices.drivers import desktop
from devices.drivers.desktop.display import Event
from guiagent.actions import Click, Open
from guiagent.errors import InfrastructureError
from guiagent.types import Baseline, ObserveSpec
from tests.bench.peers import PeerMissing
from tests.bench.rows import Arm, Row, at_most, interleave, times_the_peer

_CONFIG = DesktopConfig(width=1920, height=1080)
_PAUSE_S = 2.0  # OSWorld's default
_PLACES = cycle([(900, 500), (910, 500), (910, 510)])  # on the editor's text
_FRAMES = 20
_CLICKS = 10
_POINTER_MOVES = 6


def rows(rounds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        run = runner.run
        cold = Arm(lambda: run(_start_seconds()))
        interleave(rounds, cold)
        yield at_most("desktop started, nothing warm", "s", cold, 2.5)
        device = run(desktop.start(_CONFIG))
        stack.callback(lambda: run(device.close()))
        reset = Arm(lambda: run(_seconds(lambda: device.reset(0, Baseline(), ObserveSpec()))))
        interleave(rounds, reset)
        yield at_most("desktop reset", "s", reset, 0.5)
        run(_furnish(device))
        frame = Arm(lambda: run(_frame_ms(device)))
        interleave(rounds * _FRAMES, frame)
        yield at_most("1080p frame of a desktop, captured and encoded as JPEG", "ms", frame, 15)
        click = Arm(lambda: run(_click_ms(device)))
        interleave(rounds * _CLICKS, click)
        yield at_most("click to settled frame on a still desktop", "ms", click, 60)
        ours = Arm(lambda: 1000 / run(_click_ms(device)))
        osworld = Arm(lambda: 1 / run(_osworld_step_s(device)))
        interleave(max(2, rounds // 2), ours, osworld)
        yield times_the_peer("step on a desktop | OSWorld's way", "steps/s", ours, osworld, 20)


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _start_seconds() -> float:
    began = time.perf_counter()
    device = await desktop.start(_CONFIG)
    await device.observe(ObserveSpec())
    took = time.perf_counter() - began
    await device.close()
    return took


async def _furnish(device: desktop.DesktopDevice) -> None:
    """Something to look at: a terminal and, where there is one, an editor."""
    for name in ("xterm", "mousepad"):
        observation = await device.act([Open(target=name)], ObserveSpec())
        if observation.action_error and name == "xterm":
            raise InfrastructureError(observation.action_error)
    await device.act([Click(x=900, y=500)], ObserveSpec())


async def _frame_ms(device: desktop.DesktopDevice) -> float:
    """Of a frame that is not the one before: the pointer moved."""
    x, y = next(_PLACES)
    display = device.session.display
    display.play([Event(_POINTER_MOVES, 0, x, y)])
    await display.sync()
    began = time.perf_counter()
    observation = await device.observe(ObserveSpec(quality=85))
    assert observation.frame
    return 1000 * (time.perf_counter() - began)


async def _click_ms(device: desktop.DesktopDevice) -> float:
    x, y = next(_PLACES)
    began = time.perf_counter()
    observation = await device.act([Click(x=x, y=y)], ObserveSpec(quality=85))
    assert observation.frame and observation.action_error is None
    return 1000 * (time.perf_counter() - began)


async def _osworld_step_s(device: desktop.DesktopDevice) -> float:
    x, y = next(_PLACES)
    code = f"import pyautogui; import time; pyautogui.FAILSAFE = False; pyautogui.click({x}, {y})"
    body = json.dumps({"command": ["python", "-c", code], "shell": False}).encode()
    began = time.perf_counter()
    answer = json.loads(await _ask(device, "POST /execute", body))
    if answer.get("returncode") != 0:
        raise PeerMissing(f"pyautogui in the guest: {str(answer.get('error'))[-120:]}")
    await asyncio.sleep(_PAUSE_S)
    picture = await _ask(device, "GET /screenshot")
    took = time.perf_counter() - began
    assert Image.open(io.BytesIO(picture)).size == (_CONFIG.width, _CONFIG.height)
    return took


async def _ask(device: desktop.DesktopDevice, what: str, body: bytes = b"") -> bytes:
    """One HTTP request on a connection of its own, as OSWorld's controllers make them."""
    reader, writer = await device.connect("osworld")
    headers = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    writer.write(f"{what} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]
