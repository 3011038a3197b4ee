"""Suites on the virtual phone: tasks of training with other seeds, templates and apps that it never saw."""

from eval.suites.suite import Suite
from guiagent.wire import Grant
from rewards.tasksets.phone import TRAIN_TEMPLATES, UNSEEN_APP_TEMPLATES, UNSEEN_TEMPLATES

_SCREEN = (720, 1280)
_GRANTS: tuple[Grant, ...] = ("shell", "files")  # a check reads the phone's state; there is no page to ask

PHONE = Suite(
    name="phone",
    taskset="phone",
    train_tasks=TRAIN_TEMPLATES,
    unseen_tasks=UNSEEN_TEMPLATES,
    episodes=5,
    device="phone",
    screen=_SCREEN,
    grants=_GRANTS,
    oracle=False,
)
PHONE_UNSEEN_APPS = Suite(
    name="phone-unseen-apps",
    taskset="phone",
    train_tasks=(),
    unseen_tasks=UNSEEN_APP_TEMPLATES,
    episodes=5,
    device="phone",
    screen=_SCREEN,
    grants=_GRANTS,
    oracle=False,
)
