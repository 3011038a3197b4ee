"""Farama's `miniwob` environment doing its full step: click, reward, fields, DOM and screenshot.

Run as `python -m tests.bench.peers.farama STEPS`; says "ready", waits for a line, answers with its pace.
"""

import json
import logging
import os
import shutil
import sys
from typing import Any

import gymnasium
import miniwob
import numpy as np
from miniwob.action import ActionTypes

from tests.bench.pace import POINT, TASK, pace_of


def main(steps: int) -> None:
    logging.disable(logging.WARNING)
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium and chromedriver:
        os.environ |= {"MINIWOB_CHROME_BINARY": chromium, "MINIWOB_CHROMEDRIVER": chromedriver}
    gymnasium.register_envs(miniwob)
    environment: Any = gymnasium.make(f"miniwob/{TASK}-v1").unwrapped
    click = environment.create_action(ActionTypes.CLICK_COORDS, coords=np.array(POINT, dtype=np.float32))

    def reset(seed: int) -> None:
        environment.reset(seed=seed, options={"record_screenshots": True})
        # The task's own ten-second limit must not end an episode on a slow machine.
        environment.instance.driver.execute_script("clearTimeout(core.EP_TIMER)")

    def step() -> None:
        observation, _, terminated, _, _ = environment.step(click)
        assert not terminated
        assert observation["screenshot"].shape == (210, 160, 3)

    reset(0)
    print("ready", flush=True)
    if sys.stdin.readline():
        print(json.dumps(pace_of(reset, step, steps)), flush=True)
    environment.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
