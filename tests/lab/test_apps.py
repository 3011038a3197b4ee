"""Made-to-order apps: the same from the same specification, solvable, as deep as asked for; their plans."""

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guiagent.errors import UsageError
from guiagent.lab.goals import Goal, Put, Save, Visit, missing
from guiagent.lab.growth import grow
from guiagent.lab.plan import plan
from guiagent.lab.state import BACK, POPUP, AppState, Enter, Event, Rest, Scroll, Tap, apply, rows
from guiagent.lab.world import AppSpec, World

SPEC = AppSpec(graph=7, screens=14, depth=5)


def depths(world: World) -> dict[int, int]:
    """Links from the first screen to each that can be reached."""
    found, todo = {0: 0}, deque([0])
    while todo:
        screen = todo.popleft()
        for one in world.screens[screen].rows:
            if one.kind == "link" and one.to not in found:
                found[one.to] = found[screen] + 1
                todo.append(one.to)
    return found


@given(st.integers(0, 10**6), st.integers(5, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_every_screen_is_reached_and_the_farthest_is_as_deep_as_asked(
    graph: int, screens: int, data: st.DataObject
) -> None:
    depth = data.draw(st.integers(1, min(40, screens - 1)))
    world = grow(AppSpec(graph=graph, screens=screens, depth=depth))
    found = depths(world)
    assert sorted(found) == list(range(screens))
    assert max(found.values()) == depth
    assert len({screen.title for screen in world.screens}) == screens
    for number, screen in enumerate(world.screens):
        assert all(world.row(one.key) == (number, index) for index, one in enumerate(screen.rows))


def test_the_same_specification_is_the_same_app() -> None:
    fresh = grow.__wrapped__
    assert fresh(SPEC) == fresh(SPEC) != fresh(AppSpec(graph=8, screens=14, depth=5))


def test_an_app_cannot_be_deeper_than_it_has_screens() -> None:
    with pytest.raises(UsageError, match="give it at least 10 screens"):
        grow(AppSpec(screens=9, depth=9))


def follow(state: AppState, goal: Goal, most: int = 500) -> int:
    """Do what the plan says next until it is empty; returns the inputs that took."""
    for count in range(most):
        todo = plan(state, goal)
        if not todo:
            return count
        apply(grow(state.app), state, todo[0])
    raise AssertionError("the plan never ends")


def any_goal(world: World, rng: random.Random) -> Goal:
    toggles = [one for screen in world.screens for one in screen.rows if one.kind == "toggle"]
    forms = [one for screen in world.screens for one in screen.rows if one.kind == "save"]
    wants: list[Visit | Put | Save] = [Put(rng.choice(toggles).key, value=True)]
    if forms:
        button = rng.choice(forms)
        fields = [one for one in world.screens[world.row(button.key)[0]].rows if one.kind == "field"]
        wants.append(Save(button.key, {one.key: f"text {one.label}" for one in fields[:2]}))
    place = world.row(wants[-1].key)[0]  # type: ignore[union-attr]
    wants.append(Visit(rng.choice([n for n in range(1, len(world.screens)) if n != place])))
    return Goal(tuple(wants))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_plan_meets_its_goal_whatever_is_perturbed(seed: int, perturbed: bool) -> None:
    chances = {"popups": 0.3, "moves": 0.5, "lag": 0.3} if perturbed else {}
    app = AppSpec(graph=seed % 50, screens=14, depth=5, **chances)
    state, goal = AppState(app=app, seed=seed), any_goal(grow(app), random.Random(seed))
    told = len(plan(state, goal))
    taken = follow(state, goal)
    assert missing(goal, state) == []
    if not perturbed:
        assert taken == told


def test_a_plan_is_the_shortest() -> None:
    """Every screen by plain search over whole states, against the plan's count."""
    app = AppSpec(graph=3, screens=8, depth=3)
    world = grow(app)
    best: dict[int, int] = {}
    seen, todo = {(0, 0)}, deque([((0, 0), 0)])
    while todo:
        (screen, top), count = todo.popleft()
        best.setdefault(screen, count)
        shown = world.screens[screen].rows[top : top + app.rows]
        events: list[Event] = [Tap(one.key) for one in shown if one.kind == "link"]
        for event in [*events, Tap(BACK), Scroll(3), Scroll(-3)]:
            state = AppState(app=app, screen=screen, top=top)
            apply(world, state, event)
            if (place := (state.screen, state.top)) not in seen:
                seen.add(place)
                todo.append((place, count + 1))
    for screen in range(1, 8):
        assert len(plan(AppState(app=app), Goal((Visit(screen),)))) == best[screen]


def test_what_was_done_and_undone_is_missing_again() -> None:
    world = grow(SPEC)
    key = next(one.key for screen in world.screens for one in screen.rows if one.kind == "toggle")
    goal, state = Goal((Put(key, value=True),)), AppState(app=SPEC)
    follow(state, goal)
    assert missing(goal, state) == []
    apply(world, state, Tap(key))
    assert missing(goal, state) == list(goal.wants)
    assert state.values == {}


def test_two_wants_count_in_their_order_only() -> None:
    world = grow(SPEC)
    first, second = [one.key for screen in world.screens for one in screen.rows if one.kind == "toggle"][:2]
    goal = Goal((Put(first, value=True), Put(second, value=True)))
    state = AppState(app=SPEC)
    follow(state, Goal(tuple(reversed(goal.wants))))
    assert state.values == {first: True, second: True}
    assert missing(goal, state) == [Put(second, value=True)]


def test_a_form_counts_as_it_was_saved() -> None:
    world = grow(SPEC)
    button = next(one.key for screen in world.screens for one in screen.rows if one.kind == "save")
    field = next(one.key for one in world.screens[world.row(button)[0]].rows if one.kind == "field")
    goal, state = Goal((Save(button, {field: "oslo"}),)), AppState(app=SPEC)
    *fill, save = plan(state, goal)
    assert save == Tap(button)
    for event in fill:
        assert apply(world, state, event) is None
    assert missing(goal, state) == list(goal.wants)
    apply(world, state, save)
    assert missing(goal, state) == []
    apply(world, state, Tap(field))
    apply(world, state, Enter("bergen", clear=True))
    assert missing(goal, state) == []  # typed, and not saved
    apply(world, state, save)
    assert missing(goal, state) == list(goal.wants)


def test_a_dialog_takes_every_input_until_it_is_dismissed() -> None:
    world = grow(SPEC)
    link = next(one for one in world.screens[0].rows if one.kind == "link")
    state = AppState(app=SPEC, popup=True)
    assert apply(world, state, Tap(link.key)) == "a dialog is in front"
    assert state.screen == 0
    assert apply(world, state, Tap(POPUP)) is None
    assert apply(world, state, Tap(link.key)) is None
    assert state.screen == link.to


def test_a_delayed_tap_comes_about_with_the_next_input() -> None:
    app = AppSpec(graph=7, screens=14, depth=5, lag=0.999)
    world = grow(app)
    link = next(one for one in world.screens[0].rows if one.kind == "link")
    state = AppState(app=app)
    apply(world, state, Tap(link.key))
    assert (state.screen, state.pending) == (0, Tap(link.key))
    apply(world, state, Rest())
    assert (state.screen, state.pending) == (link.to, None)


def test_rows_that_move_are_the_same_rows() -> None:
    app = AppSpec(graph=7, screens=14, depth=5, moves=1.0)
    world, orders = grow(app), set()
    for visits in range(20):
        shown = rows(world, AppState(app=app, visits=visits))
        assert sorted(one.key for one in shown) == sorted(one.key for one in world.screens[0].rows)
        orders.add(shown)
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Tap("99.0"), "gone"),
        (Tap("no key"), "gone"),
        (Tap(BACK), "no way back"),
        (Enter("x"), "no field has the focus"),
        (Scroll(-3), "nothing more to scroll to"),
    ],
)
def test_an_input_without_effect_says_why(event: Event, why: str) -> None:
    state = AppState(app=SPEC)
    assert why in (apply(grow(SPEC), state, event) or "")
    assert (state.screen, state.values, state.log) == (0, {}, [])
