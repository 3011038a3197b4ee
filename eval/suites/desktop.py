"""The suite of real applications on our desktops: tasks in OSWorld's format, drawn from seeds."""

from eval.suites.suite import Suite
from rewards.tasksets.desktop import PROGRAMS, TEMPLATES
from rewards.tasksets.desktop.scenario import Template


def _solved(one: Template) -> str:
    """How its proof solves it, if it can be."""
    return ("by screen" if one.screen else "by files") if one.feasible else "cannot be"


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
    baselines=("null", "random", "random-element", "done", "fail"),  # some tasks cannot be done
    programs={name: PROGRAMS[one.apps[0]] for name, one in TEMPLATES.items()},
    groups={
        "app": {name: one.app for name, one in TEMPLATES.items()},
        "solved": {name: _solved(one) for name, one in TEMPLATES.items()},
    },
)
