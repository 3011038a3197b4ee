"""Suites are frozen: their seeds never meet training's, and their digest moves with any id or seed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eval.suites import SUITES, find_suite
from eval.suites.demo import ACTIONS, DEMO_APPS, DEMO_PAGES, DEMO_PHONE, DEMO_ROUNDS, LONG
from eval.suites.suite import Suite, joined
from guiagent import config as configuration
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from guiagent.seeds import EVALUATION
from rewards.catalogue import TASKSETS
from rewards.tasksets.miniwob.pages import CLICKS, STEPS
from rewards.tasksets.miniwob.rounds import ACTIONS_OF
from training.config import TrainConfig

SUITE = Suite("s", "miniwob", ("a", "b"), ("c",), episodes=5, device="browser")


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES.keys())
def test_every_suite_runs_known_tasks_on_seeds_that_training_never_uses(suite: Suite) -> None:
    assert SUITES[suite.name] is suite
    assert all(seed in EVALUATION for seed in suite.seeds())
    assert not set(suite.train_tasks) & set(suite.unseen_tasks)
    taskset = TASKSETS[suite.taskset]()
    assert [taskset.task(name, suite.first_seed).id for name in suite.tasks] == list(suite.tasks)


def test_the_demo_suite_is_large_enough_to_show_what_it_claims() -> None:
    suite = find_suite("miniwob-demo")
    assert len(suite.train_tasks) >= 8
    assert suite.unseen_tasks
    assert suite.seeds()[0] == EVALUATION.start == 1_000_000_000


def test_unknown_suite_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no suite 'osworld'; known: .*miniwob-demo"):
        find_suite("osworld")


def test_fewer_episodes_are_the_first_seeds_so_that_more_can_follow() -> None:
    assert list(SUITE.seeds(2)) == list(SUITE.seeds())[:2]
    assert len(SUITE.seeds()) == 5


@pytest.mark.parametrize("episodes", [0, -1, 6])
def test_an_impossible_number_of_episodes_is_a_usage_error(episodes: int) -> None:
    with pytest.raises(UsageError, match="ask for 1 to 5"):
        SUITE.seeds(episodes)


@pytest.mark.parametrize(
    "change",
    [
        {"taskset": "other"},
        {"train_tasks": ("b", "a")},
        {"train_tasks": ("a",), "unseen_tasks": ("b", "c")},
        {"episodes": 6},
        {"first_seed": EVALUATION.start + 1},
    ],
)
def test_the_digest_moves_with_any_task_or_seed(change: dict[str, object]) -> None:
    assert replace(SUITE, **change).digest != SUITE.digest


def test_the_digest_does_not_depend_on_the_name_or_the_process() -> None:
    assert replace(SUITE, name="renamed").digest == SUITE.digest == "a223c7429c4c694645ff3c3864eb04ef"


def test_repeated_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="listed twice"):
        replace(SUITE, unseen_tasks=("a",))


def test_some_tasks_of_a_suite_are_a_suite_on_the_same_seeds() -> None:
    some = SUITE.only(["c", "a"])
    assert (some.train_tasks, some.unseen_tasks, some.name) == (("a",), ("c",), "s (a, c)")
    assert some.seeds() == SUITE.seeds()
    assert some.digest != SUITE.digest
    assert SUITE.only(["*"]) is SUITE
    assert find_suite("miniwob-demo").only(["click-*"]).tasks[0].startswith("click-")
    with pytest.raises(UsageError, match="suite s has no task 'd'; it has a, b, c"):
        SUITE.only(["a", "d"])


def test_devices_have_the_sites_of_the_tasks_that_are_played_and_no_others() -> None:
    sites_of = {"a": ("mail",), "b": ("mail", "shop"), "c": ("wiki",)}
    suite = replace(
        SUITE, sites_of=sites_of, applications={"mail": "Mail 1", "shop": "Shop 1", "wiki": "Wiki 1"}
    )
    assert suite.lease["needs"] == ("site:mail", "site:shop", "site:wiki")
    assert suite.only(["a"]).lease["needs"] == ("site:mail",)
    assert SUITE.lease["needs"] == ()


def test_the_digest_moves_with_the_version_of_an_application_that_is_played_on() -> None:
    suite = replace(SUITE, sites_of={"a": ("mail",)}, applications={"mail": "Mail 1", "wiki": "Wiki 1"})
    assert replace(suite, applications={"mail": "Mail 2"}).digest != suite.digest
    assert replace(suite, applications={"mail": "Mail 1", "wiki": "Wiki 2"}).digest == suite.digest


def test_suites_joined_count_all_their_tasks_together_and_by_platform() -> None:
    other = replace(SUITE, name="o", device="lab", train_tasks=("d",), unseen_tasks=("e",))
    some, more = replace(SUITE, groups={"length": {"a": "1"}}), replace(other, groups={"length": {"d": "2"}})
    both = joined([some, more])
    assert (both.name, both.train_tasks, both.unseen_tasks) == ("s and o", ("a", "b", "d"), ("c", "e"))
    assert both.groups["length"] == {"a": "1", "d": "2"}
    assert {both.groups["platform"][task] for task in SUITE.tasks} == {SUITE.device}
    assert both.groups["platform"]["e"] == "lab"
    assert both.digest != joined([some, replace(more, episodes=SUITE.episodes - 1)]).digest
    assert joined([some]) is some
    with pytest.raises(ValueError, match="listed twice"):
        joined([some, replace(more, train_tasks=("a",))])


@pytest.mark.parametrize(
    ("name", "suites"),
    [("demo", (DEMO_ROUNDS, DEMO_APPS)), ("everywhere", (DEMO_PAGES, DEMO_APPS, DEMO_PHONE))],
)
def test_more_than_half_of_a_demos_tasks_take_three_actions_and_its_recipe_trains_on_them(
    name: str, suites: Sequence[Suite]
) -> None:
    trained = {task for suite in suites for task in suite.train_tasks}
    long = {task for suite in suites for task, length in suite.groups[ACTIONS].items() if length == LONG}
    assert len(trained) >= 16 and 2 * len(long) > len(trained) and long <= trained
    longest = {**CLICKS, **STEPS, **ACTIONS_OF}
    assert all(longest[page] >= 3 for page in long & {*suites[0].train_tasks})
    recipe = configuration.load(TrainConfig, recipe_path(name))
    assert {task for platform in recipe.platforms for task in platform.tasks} == trained
    screens = {one.device.kind: (one.device.width, one.device.height) for one in recipe.platforms}
    assert screens == {suite.device: suite.screen for suite in suites}
