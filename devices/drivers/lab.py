"""Apps made to order (`guiagent.lab`) as a device, in pure Python: nothing but drawing costs time.

The state to reset to is a JSON document: `ResetSpec.state` is laid over `guiagent.lab.state.AppState`, and
its "app" is the specification of the app. Probes are "state", the names of its fields, "candidates" (a tap on
each control as actions) and "labels" (their names), and three with a goal of `guiagent.lab.goals` behind a
colon: "missing:GOAL" (how many of its wants are not met), "distance:GOAL" (inputs until it is met) and
"oracle:GOAL" (the next action as a list; [] if the goal is met).
"""

import json
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import xxhash

from devices.config import LabConfig
from devices.drivers import UnsupportedAction
from devices.lab.layout import Box, layout, row_height, scrolled, tapped
from devices.lab.picture import encoded, picture
from devices.lab.theme import THEMES
from guiagent.actions import (
    ACTION,
    Action,
    Answer,
    Click,
    Done,
    LongPress,
    PressButton,
    Swipe,
    Type,
    Wait,
)
from guiagent.actions import Scroll as ScrollAction
from guiagent.errors import DECODE_ERRORS, Fault, FaultError, UsageError
from guiagent.lab.goals import Goal, missing
from guiagent.lab.growth import grow
from guiagent.lab.plan import plan
from guiagent.lab.state import BACK, AppState, Enter, Event, Rest, Scroll, Tap, apply
from guiagent.types import (
    MAX_VALUE,
    Capabilities,
    Health,
    Node,
    Observation,
    ObserveSpec,
    ResetSpec,
    State,
)

_SNAPSHOTS_KEPT = 4096
_snapshots: dict[str, bytes] = {}  # shared by all such devices of this process, for forks


async def start(config: LabConfig) -> "LabDevice":
    return LabDevice(config)


def sweep() -> int:
    return 0  # nothing of it outlives its process


class LabDevice:
    """An app made to order, as a `devices.drivers.HostedDevice`."""

    def __init__(self, config: LabConfig) -> None:
        self._size = (config.width, config.height)
        self._state = AppState()
        self._world = grow(self._state.app)
        self._boxes: list[Box] | None = None  # of the state as it is; None after it changed

    async def describe(self) -> Capabilities:
        return Capabilities(
            "lab", *self._size, ["exec", "a11y", "page", "snapshot", "fork", "state"], "guiagent lab"
        )

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Start the app that `baseline.state` describes, or go back to a snapshot.

        Raises:
            UsageError: there is no such snapshot, or the state is none of an app that can be made.
        """
        kept = b""
        if baseline.snapshot is not None and not (kept := _snapshots.get(baseline.snapshot, b"")):
            raise UsageError(f"there is no snapshot {baseline.snapshot!r} of a lab device here")
        state = msgspec.msgpack.decode(kept, type=AppState) if kept else AppState(seed=seed)
        if baseline.state is not None:
            try:
                state = msgspec.convert(msgspec.to_builtins(state) | baseline.state, AppState)
            except msgspec.ValidationError as error:
                raise UsageError(f"this is no state of an app: {error}") from error
        if state.app.theme not in THEMES:
            raise UsageError(f"no theme {state.app.theme!r}; known: {', '.join(THEMES)}")
        world = grow(state.app)
        if not 0 <= state.screen < len(world.screens):
            raise UsageError(f"the app has no screen {state.screen}: it has {len(world.screens)}")
        self._state, self._world, self._boxes = state, world, None
        return self._observe(spec, None)

    async def observe(self, spec: ObserveSpec) -> Observation:
        return self._observe(spec, None)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        error = None
        for action in actions:
            try:
                event = self._event(action)
                error = apply(self._world, self._state, event) if event is not None else None
            except UnsupportedAction as refused:
                error = str(refused)
            self._boxes = None
            if error is not None:
                break
        return self._observe(spec, error)

    async def snapshot(self) -> str:
        name = f"lab-{secrets.token_hex(8)}"
        _snapshots[name] = msgspec.msgpack.encode(self._state)
        while len(_snapshots) > _SNAPSHOTS_KEPT:
            del _snapshots[next(iter(_snapshots))]
        return name

    async def attest(self) -> str:
        return xxhash.xxh3_64_hexdigest(msgspec.msgpack.encode(self._state))

    async def health(self) -> Health:
        return Health(True)

    async def close(self) -> None:
        pass

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _drawn(self) -> list[Box]:
        if self._boxes is None:
            self._boxes = layout(self._world, self._state, THEMES[self._state.app.theme], self._size)
        return self._boxes

    def _event(self, action: Action) -> Event | None:
        """The input that an action is; None for words to the user. Raises UnsupportedAction."""
        match action:
            case Click(button="left") | LongPress():
                tap = tapped(self._drawn, action.x, action.y)
                if tap is None:
                    raise UnsupportedAction(f"nothing to press at ({action.x}, {action.y})")
                return tap
            case ScrollAction(dx=0, dy=dy) if dy:
                return Scroll(self._rows(dy))
            case Swipe() if abs(action.y1 - action.y2) > abs(action.x1 - action.x2):
                return Scroll(self._rows(action.y1 - action.y2))
            case Type(submit=False):
                return Enter(action.text, action.clear)
            case PressButton(button="back"):
                return Tap(BACK)
            case Wait():
                return Rest()
            case Answer() | Done():
                return None
            case _:
                raise UnsupportedAction(f"a lab device has no {action.type!r} such as this")

    def _rows(self, pixels: int) -> int:
        """The whole rows in a distance, from one to half a display; positive is downwards."""
        fit = self._state.app.rows
        count = min(max(1, abs(pixels) // row_height(self._size, fit)), fit // 2)
        return count if pixels > 0 else -count

    def _observe(self, spec: ObserveSpec, error: str | None) -> Observation:
        frame = b""
        if spec.frame != "none":
            part = scrolled(self._world, self._state)
            frame = encoded(
                picture(self._drawn, part, self._state.app.theme, self._size), spec.frame, spec.quality
            )
        title = self._world.screens[self._state.screen].title
        return Observation.of(
            self._size,
            frame,
            spec,
            url=f"lab:{self._state.screen}" if spec.page else None,
            title=title if spec.page else None,
            tree=[_node(*box) for box in enumerate(self._drawn)] if spec.tree else None,
            probes={name: self._probe(asked) for name, asked in spec.probes.items()},
            action_error=error,
        )

    def _probe(self, asked: str) -> Any:
        what, _, goal = asked.partition(":")
        match what:
            case "candidates":
                return [_click(*box.centre) for box in self._touchable()]
            case "labels":
                return [box.label for box in self._touchable()]
            case "missing":
                return len(missing(_goal(goal), self._state))
            case "distance":
                return len(self._plan(_goal(goal)))
            case "oracle":
                return self._oracle(_goal(goal))
        state: dict[str, Any] = json.loads(msgspec.json.encode(self._state))
        whole = {name: state.get(name) for name in AppState.__struct_fields__}
        if what != "state" and what not in whole:
            known = ", ".join(("state", *whole, "candidates", "labels", "missing:", "distance:", "oracle:"))
            raise FaultError(Fault("task", "probe", f"this device has no {asked[:80]!r}; probes are {known}"))
        return state if what == "state" else whole[what]

    def _touchable(self) -> list[Box]:
        return [box for box in self._drawn if box.key and box.role != "text"]

    def _plan(self, goal: Goal) -> list[Event]:
        try:
            return plan(self._state, goal)
        except (KeyError, ValueError, IndexError) as error:
            raise FaultError(Fault("task", "no_way", f"this app has no way to the goal: {error}")) from error

    def _oracle(self, goal: Goal) -> list[dict[str, Any]]:
        todo = self._plan(goal)
        if not todo:
            return [_dumped(Answer(text=self._world.element(goal.fact).value))] if goal.fact else []
        x, y = self._size[0] // 2, self._size[1] // 2
        match todo[0]:
            case Tap(key=key):
                return [_click(*next(box.centre for box in self._drawn if box.key == key))]
            case Scroll(rows=rows):
                return [
                    _dumped(ScrollAction(x=x, y=y, dy=rows * row_height(self._size, self._state.app.rows)))
                ]
            case Enter(text=text, clear=clear):
                return [_dumped(Type(text=text, clear=clear))]
            case _:
                return [_dumped(Wait(ms=100))]


def _goal(text: str) -> Goal:
    try:
        return msgspec.json.decode(text, type=Goal)
    except DECODE_ERRORS as error:
        raise FaultError(Fault("task", "probe", f"this is no goal on an app: {error}")) from error


def _click(x: int, y: int) -> dict[str, Any]:
    return _dumped(Click(x=x, y=y))


def _dumped(action: Action) -> dict[str, Any]:
    dumped: dict[str, Any] = ACTION.dump_python(action, mode="json")
    return dumped


def _node(id: int, box: Box) -> Node:
    value = "" if isinstance(box.value, bool) else box.value[:MAX_VALUE]
    place = box.left, box.top, box.width, box.height
    told: dict[State, bool] = {"checked": box.value is True, "focused": box.focused}
    states = tuple(state for state, holds in told.items() if holds)
    return Node(box.role, box.label, place, str(id), value=value, states=states)
