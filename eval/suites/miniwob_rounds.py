"""The suite of pages played several rounds in one episode: success by page and by number of actions."""

from eval.suites.suite import Suite
from rewards.tasksets.miniwob import HEIGHT, WIDTH
from rewards.tasksets.miniwob.rounds import ACTIONS_OF, PAGE_OF, TRAIN_TASKS

MINIWOB_ROUNDS = Suite(
    name="miniwob-rounds",
    taskset="miniwob-rounds",
    train_tasks=TRAIN_TASKS,
    unseen_tasks=tuple(name for name in PAGE_OF if name not in TRAIN_TASKS),
    episodes=50,
    device="browser",
    screen=(WIDTH, HEIGHT),
    groups={"page": PAGE_OF, "actions": {name: str(actions) for name, actions in ACTIONS_OF.items()}},
)
