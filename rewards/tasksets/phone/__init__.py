"""Phone tasks with a seeded start and a check on the state, split for three kinds of generalisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from guiagent.errors import UsageError
from rewards.tasksets.phone import (
    calculator,
    calendar,
    calls,
    clock,
    composites,
    contacts,
    expenses,
    files,
    messages,
    notes,
    recipes,
    settings,
    shopping,
    to_do,
)
from rewards.tasksets.phone.hands import PhoneTaskByHand
from rewards.tasksets.phone.task import PhoneTask
from rewards.tasksets.phone.template import Template

_MODULES = (
    settings,
    contacts,
    calls,
    messages,
    clock,
    calendar,
    files,
    notes,
    calculator,
    shopping,
    expenses,
    recipes,
    to_do,
    composites,
)
TEMPLATES: dict[str, Template] = {one.name: one for module in _MODULES for one in module.TEMPLATES}
UNSEEN_APPS = frozenset({"org.guiagent.recipes", "org.guiagent.tasks"})
"""Apps that no training task opens."""
UNSEEN_TEMPLATES: tuple[str, ...] = (
    "settings-two-switches",
    "settings-font-size",
    "contacts-rename",
    "phone-delete-missed",
    "messages-forward",
    "clock-switch-off",
    "calendar-clear-day",
    "files-rename",
    "notes-file-away",
    "shopping-quantity",
    "expenses-correct",
    "alarm-before-event",
)
"""Templates that training never uses, in apps that it does use."""
UNSEEN_APP_TEMPLATES = tuple(name for name, one in TEMPLATES.items() if UNSEEN_APPS & {*one.packages})
TRAIN_TEMPLATES = tuple(name for name in TEMPLATES if name not in {*UNSEEN_TEMPLATES, *UNSEEN_APP_TEMPLATES})


@dataclass(frozen=True)
class PhoneTasks:
    """The taskset "phone". It has no probes, as no page can be asked. `oracle` makes tasks `Demonstrable`."""

    oracle: bool = False

    @property
    def names(self) -> Sequence[str]:
        return tuple(TEMPLATES)

    def task(self, name: str, seed: int) -> PhoneTask:
        """A task for one episode: the template `name` with the parameters of `seed`."""
        template = TEMPLATES.get(name)
        if template is None:
            raise UsageError(f"no phone task {name!r}; known: {', '.join(TEMPLATES)}")
        make = PhoneTaskByHand if self.oracle else PhoneTask
        return make(name, seed, template.packages, template.make(Random(f"{name}/{seed}")))
