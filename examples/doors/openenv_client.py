"""OpenEnv's own client plays a page on a leased browser; `guiagent openenv miniwob-demo` serves it."""

import base64
import io
import os

from openenv.core import GenericEnvClient
from PIL import Image

URL = os.environ.get("OPENENV_URL", "http://127.0.0.1:8701")
TOKEN = {"Authorization": f"Bearer {os.environ['GUIAGENT_OPENENV_TOKEN']}"}


def a_button(screen: str) -> tuple[int, int]:
    """The middle pixel of the grey that the page's two buttons are filled with."""
    picture = Image.open(io.BytesIO(base64.b64decode(screen))).convert("L")
    grey = [
        (x, y) for y in range(52, 205) for x in range(picture.width) if 230 < picture.getpixel((x, y)) < 250
    ]
    return grey[len(grey) // 2]


with GenericEnvClient(base_url=URL, headers=TOKEN).sync() as env:
    for seed in range(12):
        shown = env.reset(task="click-test-2", seed=seed)
        x, y = a_button(shown.observation["screen"])
        ended = env.step({"type": "click", "x": x, "y": y})
        print(f"{shown.observation['instruction']} at {x},{y}: done {ended.done}, reward {ended.reward}")
        if ended.reward == 1.0:
            break
    print("steps of the last episode:", env.state()["step_count"])
