"""miniwob-cube, as published, on leased browsers: its own debug tasks and agents, in its own words.

    python examples/doors/cube_miniwob.py

Beside `guiagent up browser=2@1280x720,cdp` its tasks share that pool; without one, each starts a browser.
"""

from cube.testing import run_debug_suite
from cube_browser_tool import PlaywrightConfig
from miniwob_cube import debug
from miniwob_cube.debug import make_debug_agent

from eval.doors.cube_browser import LeasedBrowser

__all__ = ["get_debug_benchmark", "make_debug_agent"]  # by these names CUBE's tests find them


def get_debug_benchmark():
    benchmark = debug.get_debug_benchmark()
    pages = [f"localhost:{benchmark.port}", f"127.0.0.1:{benchmark.port}"]  # served by the benchmark
    browser = LeasedBrowser(egress=pages)
    tool = PlaywrightConfig(browser=browser, use_html=True, use_axtree=False, use_screenshot=False)
    return benchmark.model_copy(update={"tool_config": tool})


def main() -> None:
    import cube_miniwob

    for episode in run_debug_suite("miniwob-cube", cube_miniwob, print_json=False):
        print(episode["task_id"], episode["reward"], episode["error"] or "")


if __name__ == "__main__":
    main()
