"""Suites on the virtual phone: tasks of training with held-out seeds, templates and apps never trained on."""

from dataclasses import replace

from eval.suites.suite import Suite
from guiagent.wire import Grant
from rewards.tasksets.phone import TEMPLATES, TRAIN_TEMPLATES, UNSEEN_APP_TEMPLATES, UNSEEN_TEMPLATES

_SCREEN = (720, 1280)
_GRANTS: tuple[Grant, ...] = ("shell", "files")  # checks read the phone's state; there is no web page

_APPS = {name: one.packages[0].rsplit(".", 1)[-1] for name, one in TEMPLATES.items()}
_REGIMES = {
    **dict.fromkeys(TRAIN_TEMPLATES, "unseen instances"),
    **dict.fromkeys(UNSEEN_TEMPLATES, "unseen templates"),
    **dict.fromkeys(UNSEEN_APP_TEMPLATES, "unseen apps"),
}  # of generalisation, as AndroidWorld-Generalization tells them apart (arXiv 2603.07432)

PHONE = Suite(
    name="phone",
    taskset="phone",
    train_tasks=TRAIN_TEMPLATES,
    unseen_tasks=UNSEEN_TEMPLATES,
    episodes=5,
    device="phone",
    screen=_SCREEN,
    grants=_GRANTS,
    groups={"app": _APPS, "regime": _REGIMES},
)
PHONE_UNSEEN_APPS = replace(
    PHONE, name="phone-unseen-apps", train_tasks=(), unseen_tasks=UNSEEN_APP_TEMPLATES, groups={"app": _APPS}
)
PHONE_REGIMES = replace(PHONE, name="phone-regimes", unseen_tasks=UNSEEN_TEMPLATES + UNSEEN_APP_TEMPLATES)
