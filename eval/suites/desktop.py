"""The suite of real applications on our desktops: tasks in OSWorld's format, drawn from seeds."""

from eval.suites.suite import Suite
from rewards.tasksets.desktop import PROGRAMS, TEMPLATES

DESKTOP = Suite(
    name="desktop",
    taskset="desktop",
    train_tasks=(),
    unseen_tasks=tuple(TEMPLATES),
    episodes=10,
    device="desktop",
    screen=(1280, 800),
    grants=("shell",),  # set-ups and checks reach the guest's server
    oracle=False,
    programs={name: PROGRAMS[one.apps[0]] for name, one in TEMPLATES.items()},
    groups={
        "app": {name: one.apps[0] for name, one in TEMPLATES.items()},
        "solved": {name: "by screen" if one.screen else "by files" for name, one in TEMPLATES.items()},
    },
)
