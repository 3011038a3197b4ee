"""The suites of `guiagent demo`, one a platform: pages of MiniWoB++, apps made to order, the phone.

More than half of the tasks that are trained on take three actions or more; they are counted apart, on seeds
held out from training. Unseen are other pages, other apps made to order, other templates of the phone.
"""

from collections.abc import Mapping
from dataclasses import replace

from eval.suites.lab import LAB
from eval.suites.miniwob import MINIWOB
from eval.suites.miniwob_rounds import MINIWOB_ROUNDS
from eval.suites.phone import PHONE_REGIMES
from eval.suites.suite import Suite
from rewards.tasksets.miniwob import UNSEEN_TASKS
from rewards.tasksets.miniwob.rounds import ACTIONS_OF, PAGES

SHORT, LONG, UNSEEN = "one or two", "three or more", "never trained on"

_SHORT = (
    *("click-test-2", "click-dialog-2", "click-widget", "focus-text-2", "circle-center", "count-shape"),
    *("buy-ticket", "navigate-tree"),
)
_LONG = (  # on at least two seeds of three, by the oracle
    *("click-checkboxes", "click-checkboxes-transfer", "choose-list", "odd-or-even", "enter-text"),
    *("simple-arithmetic", "form-sequence-3", "phone-book"),
)
_PAGES = dict.fromkeys(_SHORT, SHORT) | dict.fromkeys(_LONG, LONG)
_PHONE = dict.fromkeys(
    ("settings-switch", "settings-volume", "shopping-check-off", "notes-delete", "expenses-delete"), LONG
)
_PHONE_SCREEN = (240, 320)  # as the demo has it: on larger ones the small policy's replies cannot be read
_UNSEEN_TEMPLATES = ("settings-two-switches", "shopping-quantity", "contacts-rename", "tasks-complete")
_APPS = dict.fromkeys(("reach-2", "set-2", "reach-4", "set-4"), LONG)  # with the one that ends the episode
ACTIONS = "actions, trained on"


def _grouped(suite: Suite, name: str, trained: Mapping[str, str]) -> Suite:
    """The suite under its name, with its tasks by the actions that those trained on take."""
    lengths = {task: trained.get(task, UNSEEN) for task in suite.tasks}
    return replace(suite, name=name, episodes=50, groups={ACTIONS: lengths})


_AGAIN = (
    *("click-dialog-2", "click-widget", "focus-text-2", "identify-shape"),
    *("click-collapsible", "circle-center"),
)
_ONCE = (*_AGAIN, "click-test-2", "click-color")
_ROUNDS = {
    name: LONG if ACTIONS_OF[name] > 2 else SHORT
    for name in (*(f"{page}-x1" for page in _ONCE), *(f"{page}-x3" for page in _AGAIN))
}
_UNSEEN_ROUNDS = tuple(f"{page}-x1" for page in PAGES if page in UNSEEN_TASKS)

DEMO_ROUNDS = _grouped(
    replace(MINIWOB_ROUNDS, train_tasks=tuple(_ROUNDS), unseen_tasks=_UNSEEN_ROUNDS), "demo-rounds", _ROUNDS
)
DEMO_PAGES = _grouped(
    replace(MINIWOB, train_tasks=tuple(_PAGES), unseen_tasks=UNSEEN_TASKS), "demo-pages", _PAGES
)
DEMO_APPS = _grouped(LAB.only([*_APPS, *(f"{name}@graphs" for name in _APPS)]), "demo-apps", _APPS)
DEMO_PHONE = _grouped(
    replace(PHONE_REGIMES.only([*_PHONE, *_UNSEEN_TEMPLATES]), screen=_PHONE_SCREEN), "demo-phone", _PHONE
)
