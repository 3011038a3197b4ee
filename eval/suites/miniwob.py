"""The suite of MiniWoB++ pages with typing, lists, menus, mail and drags, none of them the demo's."""

from eval.suites.suite import Suite
from rewards.tasksets.miniwob import FAMILIES, HEIGHT, STEP_TASKS, WIDTH

MINIWOB = Suite(
    name="miniwob",
    taskset="miniwob",
    train_tasks=STEP_TASKS,
    unseen_tasks=(),
    episodes=20,
    device="browser",
    screen=(WIDTH, HEIGHT),
    groups={"family": {page: name for name, pages in FAMILIES.items() for page in pages}},
)
