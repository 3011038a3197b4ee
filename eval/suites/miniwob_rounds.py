"""The suite of pages played several rounds in one episode: success by page and by number of actions."""

from eval.suites.suite import Suite
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from rewards.tasksets.miniwob.rounds import ACTIONS_OF, PAGE_OF, TRAIN_TASKS

_PAGES = ("click-test-2", "click-collapsible", "circle-center")
_TASKS = {name: page for name, page in PAGE_OF.items() if page in _PAGES}

MINIWOB_ROUNDS = Suite(
    name="miniwob-rounds",
    taskset="miniwob-rounds",
    train_tasks=tuple(name for name in _TASKS if name in TRAIN_TASKS),
    unseen_tasks=tuple(name for name in _TASKS if name not in TRAIN_TASKS),
    episodes=50,
    device="browser",
    screen=(WIDTH, HEIGHT),
    groups={"page": _TASKS, "actions": {name: str(ACTIONS_OF[name]) for name in _TASKS}},
)
