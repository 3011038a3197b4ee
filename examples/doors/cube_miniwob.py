"""miniwob-cube, as published, on leased browsers: its own debug tasks and agents, in its own words.

    python examples/doors/cube_miniwob.py

Beside `guiagent up browser=2@1280x720,cdp` its tasks share that pool; without one, each starts a browser.
"""

import socket

from cube.testing import run_debug_suite
from miniwob_cube import debug
from miniwob_cube.debug import make_debug_agent

from eval.doors.cube.browser import LeasedBrowser, LeasedPlaywrightConfig

__all__ = ["get_debug_benchmark", "make_debug_agent"]  # by these names CUBE's tests find them


def get_debug_benchmark():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    browser = LeasedBrowser(egress=[f"localhost:{port}", f"127.0.0.1:{port}"])  # its pages, served there
    tool = LeasedPlaywrightConfig(browser=browser, use_screenshot=False)
    return debug.get_debug_benchmark().model_copy(update={"tool_config": tool, "port": port})


def main() -> None:
    import cube_miniwob

    for episode in run_debug_suite("miniwob-cube", cube_miniwob, print_json=False):
        print(episode["task_id"], episode["reward"], episode["error"] or "")


if __name__ == "__main__":
    main()
