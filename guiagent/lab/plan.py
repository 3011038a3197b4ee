"""The shortest way to a goal: breadth-first search over screens and how far each is scrolled."""

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from guiagent.lab.goals import Goal, Put, Save, Visit, Want, missing
from guiagent.lab.growth import grow
from guiagent.lab.state import BACK, POPUP, AppState, Enter, Event, Rest, Scroll, Tap, furthest, rows
from guiagent.lab.world import AppSpec, Element

Place = tuple[int, int]  # a screen and the rows scrolled out of view
Order = tuple[Element, ...]  # rows of the screen that the search begins on, as they are shown


def plan(state: AppState, goal: Goal) -> list[Event]:
    """Return the inputs that meet the goal from here, the fewest if nothing perturbs them; [] if it is met.

    For a goal with a fact they lead to where it can be read. Fields are filled in the order of the goal.

    Raises:
        ValueError: no way leads there.
    """
    wants, world = missing(goal, state), grow(state.app)
    if not wants and not goal.fact:
        return []
    way = _Way(state.app, state.screen, state.top, rows(world, state), state.focus, dict(state.values))
    if state.pending is not None:
        way.events.append(Rest())
    if state.popup:
        way.events.append(Tap(POPUP))
    for want in wants:
        way.meet(want)
    if goal.fact:
        way.show(goal.fact)
    return way.events


@dataclass
class _Way:
    """A plan in the making: where it has led so far, and by which inputs."""

    app: AppSpec
    screen: int
    top: int
    order: Order
    focus: str
    values: dict[str, str | bool]
    events: list[Event] = field(default_factory=list)

    def meet(self, want: Want) -> None:
        match want:
            case Visit(screen=screen):
                self._go({(screen, 0)})
            case Put(key=key, value=value):
                self._put(key, value)
            case Save(key=key, values=values):
                for name, text in values.items():
                    if self.values.get(name, "") != text:
                        self._put(name, text)
                self.show(key)
                self.events.append(Tap(key))

    def show(self, key: str) -> None:
        """Go to where the row called `key` is visible."""
        screen, index = grow(self.app).row(key)
        if screen == self.screen:
            index = [one.key for one in self.order].index(key)
        tops = range(furthest(grow(self.app).screens[screen], self.app.rows) + 1)
        self._go({(screen, top) for top in tops if top <= index < top + self.app.rows})

    def _put(self, key: str, value: str | bool) -> None:
        self.show(key)
        if isinstance(value, bool):
            self.events.append(Tap(key))
        else:
            if self.focus != key:
                self.events.append(Tap(key))
            self.events.append(Enter(value, clear=bool(self.values.get(key))))
            self.focus = key
        self.values[key] = value

    def _go(self, places: set[Place]) -> None:
        start = (self.screen, self.top)
        usual = self.order is grow(self.app).screens[self.screen].rows
        ways = _ways(self.app, start, () if usual else self.order)
        reached = [place for place in ways if place in places]
        if not reached:
            raise ValueError(f"no way leads from screen {self.screen} to {sorted(places)}")
        place, back = reached[0], list[Event]()  # in order of distance
        if place[0] != self.screen:
            self.focus, self.order = "", grow(self.app).screens[place[0]].rows
        self.screen, self.top = place
        while place != start:
            place, event = ways[place]
            back.append(event)
        self.events += reversed(back)


_NOTHING: Event = Rest()


@lru_cache(maxsize=4096)
def _ways(app: AppSpec, start: Place, moved: Order) -> dict[Place, tuple[Place, Event]]:
    """Every place that can be reached, nearest first; with it the place before and the input between.

    `moved` holds the rows of the first screen, if they are not in their usual order.
    """
    links, ways, todo = _links(app), {start: (start, _NOTHING)}, deque([start])
    while todo:
        place = todo.popleft()
        here = _moves(app, place, moved) if moved and place[0] == start[0] else links[place]
        for event, to in here:
            if to not in ways:
                ways[to] = place, event
                todo.append(to)
    return ways


@lru_cache(maxsize=256)
def _links(app: AppSpec) -> dict[Place, list[tuple[Event, Place]]]:
    """What leads on from every place of an app."""
    return {
        (number, top): _moves(app, (number, top), screen.rows)
        for number, screen in enumerate(grow(app).screens)
        for top in range(furthest(screen, app.rows) + 1)
    }


def _moves(app: AppSpec, place: Place, shown: Order) -> list[tuple[Event, Place]]:
    """The inputs that lead to another place, and where they lead."""
    (here, top), fit = place, app.rows
    screen = grow(app).screens[here]
    moves: list[tuple[Event, Place]] = [
        (Tap(one.key), (one.to, 0)) for one in shown[top : top + fit] if one.kind == "link"
    ]
    if screen.up >= 0:
        moves.append((Tap(BACK), (screen.up, 0)))
    for by in (fit // 2, -(fit // 2)):  # half a display, as languages without a distance scroll
        to = min(max(0, top + by), furthest(screen, fit))
        if to != top:
            moves.append((Scroll(by), (here, to)))
    return moves
