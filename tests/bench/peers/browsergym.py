"""BrowserGym's MiniWoB environment at its leanest: no waits, and no DOM or accessibility tree extracted.

Run as `python -m tests.bench.peers.browsergym STEPS`; says "ready", waits for a line, answers with its pace.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import browsergym.core.env as core
import browsergym.miniwob  # noqa: F401  registers the environments
import gymnasium
import miniwob
import playwright.sync_api
from browsergym.core.action.highlevel import HighLevelActionSet

from tests.bench.pace import POINT, TASK, pace_of


def main(steps: int) -> None:
    pages = Path(miniwob.__file__).parent / "html" / "miniwob"
    os.environ["MINIWOB_URL"] = f"{pages.as_uri()}/"
    _use_installed_chromium()
    _extract_only_the_screenshot()
    environment: Any = gymnasium.make(
        f"browsergym/miniwob.{TASK}",
        headless=True,
        pre_observation_delay=0.0,
        slow_mo=0,
        action_mapping=HighLevelActionSet(subsets=["coord"]).to_python_code,
    )
    click = f"mouse_click({POINT[0]}, {POINT[1]})"

    def reset(seed: int) -> None:
        environment.reset(seed=seed)

    def step() -> None:
        observation, _, terminated, _, _ = environment.step(click)
        assert not terminated
        assert not observation["last_action_error"]
        assert observation["screenshot"].any()

    reset(0)
    print("ready", flush=True)
    if sys.stdin.readline():
        print(json.dumps(pace_of(reset, step, steps)), flush=True)
    environment.close()


def _use_installed_chromium() -> None:
    """Its Playwright is older than any Chromium that it could still download."""
    launch = playwright.sync_api.BrowserType.launch
    path = shutil.which("chromium")

    def launch_installed(self: Any, **options: Any) -> Any:
        return launch(self, **options | {"executable_path": path})

    playwright.sync_api.BrowserType.launch = launch_installed  # type: ignore[method-assign]


def _extract_only_the_screenshot() -> None:
    core._pre_extract = core._post_extract = lambda *_, **__: None
    core.extract_dom_snapshot = core.extract_merged_axtree = lambda *_, **__: {}
    core.extract_dom_extra_properties = lambda *_, **__: {}
    core.extract_focused_element_bid = lambda *_, **__: ""


if __name__ == "__main__":
    main(int(sys.argv[1]))
