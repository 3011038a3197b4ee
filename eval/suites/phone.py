"""Suites on the virtual phone: tasks of training with held-out seeds, templates and apps never trained on."""

from eval.suites.suite import Suite
from guiagent.wire import Grant
from rewards.tasksets.phone import TEMPLATES, TRAIN_TEMPLATES, UNSEEN_APP_TEMPLATES, UNSEEN_TEMPLATES

_SCREEN = (720, 1280)
_APPS = {"app": {name: one.packages[0].rsplit(".", 1)[-1] for name, one in TEMPLATES.items()}}
_GRANTS: tuple[Grant, ...] = ("shell", "files")  # checks read the phone's state; there is no web page

PHONE = Suite(
    name="phone",
    taskset="phone",
    train_tasks=TRAIN_TEMPLATES,
    unseen_tasks=UNSEEN_TEMPLATES,
    episodes=5,
    device="phone",
    screen=_SCREEN,
    grants=_GRANTS,
    groups=_APPS,
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
    groups=_APPS,
)
