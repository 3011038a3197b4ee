"""The suite of all 125 pages of MiniWoB++ that its package lists.

Nothing is trained on the pages that the demo keeps unseen, or that it only points at, so these are its unseen
half here, too.
"""

from eval.suites.suite import Suite
from rewards.tasksets.miniwob import (
    FAMILIES,
    GROUNDING_TASKS,
    HEIGHT,
    STEP_TASKS,
    TRAIN_TASKS,
    UNSEEN_TASKS,
    UNSOLVED_TASKS,
    WIDTH,
)

_FAMILY_OF = {page: name for name, pages in FAMILIES.items() for page in pages}

MINIWOB = Suite(
    name="miniwob",
    taskset="miniwob",
    train_tasks=(*TRAIN_TASKS, *STEP_TASKS, *UNSOLVED_TASKS),
    unseen_tasks=(*UNSEEN_TASKS, *GROUNDING_TASKS),
    episodes=20,
    device="browser",
    screen=(WIDTH, HEIGHT),
    groups={
        "family": {**_FAMILY_OF, **dict.fromkeys(UNSOLVED_TASKS, "unsolved")},
        "oracle": {**dict.fromkeys(_FAMILY_OF, "has one"), **dict.fromkeys(UNSOLVED_TASKS, "has none")},
    },
)
