"""What the agent of a lab task is told, in one of several ways."""

import random

from guiagent.lab.goals import Put, Save, Visit, Want
from guiagent.lab.growth import grow
from guiagent.lab.world import World
from rewards.tasksets.lab.draws import Draw

_OPEN = ('Open "{}".', 'Go to "{}".', 'Find the screen "{}" and open it.')
_SWITCH = ('Switch on "{}" in "{}".', 'Turn "{}" on, which is in "{}".', 'Enable "{}" on the screen "{}".')
_FIND = (
    'What is "{}" in "{}"? Answer with its value.',
    'Look up "{}" on the screen "{}" and answer with what it says.',
    'Report the value of "{}" in "{}".',
)
_FORM = ('In "{}", fill in {} and save.', 'Fill in {1} in "{0}", then save.', 'Save "{}" with {}.')


def instruction(drawn: Draw, rng: random.Random) -> str:
    """The instruction of a goal; the same from the same generator of random numbers."""
    world, goal = grow(drawn.app), drawn.goal
    if goal.fact:
        element, (screen, _) = world.element(goal.fact), world.row(goal.fact)
        return rng.choice(_FIND).format(element.label, world.screens[screen].title)
    parts = [_want(world, want, rng) for want in goal.wants]
    if len(parts) == 1:
        return parts[0]
    first, then = (part[0].lower() + part[1:].removesuffix(".") for part in parts)
    return f"First {first}; then {then}."


def _want(world: World, want: Want, rng: random.Random) -> str:
    match want:
        case Visit(screen=screen):
            return rng.choice(_OPEN).format(world.screens[screen].title)
        case Put(key=key):
            screen, _ = world.row(key)
            return rng.choice(_SWITCH).format(world.element(key).label, world.screens[screen].title)
        case Save(key=key, values=values):
            screen, _ = world.row(key)
            fields = " and ".join(f'{world.element(name).label} "{text}"' for name, text in values.items())
            return rng.choice(_FORM).format(world.screens[screen].title, fields)
