"""A suite as a cube: an agent that reads which button to click plays two of its tasks.

    python examples/doors/cube_suite.py
    cube test examples.doors.cube_suite       # CUBE's own checks of a benchmark, from this repository's root

Any agent of CUBE's has the same: observations with the screen as a picture and its elements as text, and
actions as tools with a JSON Schema.
"""

import re

from cube.core import Action

from eval.doors.cube.benchmark import SuiteBenchmarkConfig


def get_debug_benchmark():
    return SuiteBenchmarkConfig(suite="miniwob-demo", devices=2).subset_from_list(
        ["click-test", "click-test-2"]
    )


def make_debug_agent(task_id):
    """An agent that clicks the button that the task names, or the only one there is."""

    def agent(observation, action_set):
        told = observation.contents[0].data
        button = r"'ONE'" if "ONE" in told.splitlines()[0] else r"'[^']+'"
        x, y = re.search(rf"button {button} at x=(\d+) y=(\d+)", told).groups()
        return Action(name="click", arguments={"x": int(x), "y": int(y)})

    return agent


def main():
    config = get_debug_benchmark()
    with config.make() as benchmark:
        for task_config in config.get_task_configs():
            task = benchmark.spawn(task_config)
            try:
                observation, info = task.reset()
                print(info["task"], info["seed"], observation.contents[0].data.splitlines()[0])
                made = task.step(make_debug_agent(task.id)(observation, task.action_set))
                print("reward", made.reward, "done", made.done)
            finally:
                task.close()


if __name__ == "__main__":
    main()
