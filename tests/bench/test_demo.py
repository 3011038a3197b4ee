"""Several runs of the demo as figures: worked numbers, and which pages have a fixed layout, measured."""

from dataclasses import replace
from typing import Any

import pytest

from eval.results import EpisodeResult, Outcome, SuiteResult
from eval.suites.demo import ACTIONS, LONG, SHORT, UNSEEN
from eval.suites.suite import Suite
from guiagent.protocols import Device
from guiagent.seeds import EVALUATION
from rewards.tasksets.miniwob import GROUNDING_TASKS, TRAIN_TASKS
from tests.bench.demo_figures import DemoRun, figures, gain, markdown, rate, share
from tests.bench.layouts import Layout, layout
from training.tiny.demos import FIXED_LAYOUTS

SUITE = Suite(
    *("s", "miniwob", ("still", "moving"), ("unseen",)),
    episodes=4,
    device="browser",
    groups={ACTIONS: {"still": SHORT, "moving": LONG, "unseen": UNSEEN}},
)
LAYOUTS = {"still": Layout(0, 0), "moving": Layout(40, 40), "unseen": Layout(7, 0)}
LETTERS: dict[str, Outcome] = {"+": "success", "-": "failure", "!": "fault"}


def result(label: str, **outcomes: str) -> SuiteResult:
    """An outcome a letter, by task and seed: + success, - failure, ! fault."""
    episodes = [
        EpisodeResult(task, seed, LETTERS[letter], "task_done", 1, 1.0, 1, "", f"{label}/{task}/{seed}")
        for task in SUITE.tasks
        for seed, letter in zip(SUITE.seeds(), outcomes[task], strict=True)
    ]
    return SuiteResult(SUITE, label, tuple(episodes))


FLOOR = result("random-element", still="+---", moving="----", unseen="++--")
BEFORE = result("before", still="+---", moving="+---", unseen="++--")


def run(seed: int, **after: str) -> DemoRun:
    return DemoRun(seed, BEFORE, result("after", **after), (FLOOR,), 440.0, 4000.0)


GAINED = run(1, still="++++", moving="+++-", unseen="+---")  # 3 and 2 gained of 4; 1 lost
LESS = run(2, still="+++-", moving="-+--", unseen="++--")  # 2 gained; 1 gained and 1 lost; nothing


def test_a_gain_is_of_pairs_and_a_fault_on_either_side_says_nothing() -> None:
    assert gain(GAINED, ["still"]) == 3 / 4 and gain(GAINED, SUITE.train_tasks) == 5 / 8
    assert gain(LESS, ["moving"]) == 0.0 and gain(GAINED, ["unseen"]) == -1 / 4
    faulted = run(3, still="!++!", moving="----", unseen="----")
    assert (
        gain(faulted, ["still"]) == 2 / 2
    )  # of the two pairs without a fault; one of the others was a success
    assert rate(faulted.after, ["still"]) == 2 / 4
    reversed_ = faulted._replace(before=faulted.after, after=faulted.before)
    assert gain(reversed_, ["still"]) == -1.0
    assert gain(run(4, still="!!!!", moving="----", unseen="----"), ["still"]) == 0.0


def test_the_share_of_the_gain_is_of_its_sum_over_the_pages() -> None:
    assert share([GAINED], ["still"], SUITE.train_tasks) == pytest.approx(3 / 5)
    assert share([LESS], ["still"], SUITE.train_tasks) == 1.0
    assert share([GAINED, LESS], ["still"], SUITE.train_tasks) == pytest.approx(5 / 7)
    assert share([GAINED], [], SUITE.train_tasks) == 0.0
    worse = run(5, still="----", moving="+---", unseen="----")
    assert share([worse], ["still"], SUITE.train_tasks) is None
    assert share([GAINED, worse], ["still"], SUITE.train_tasks) == pytest.approx(2 / 4)


def test_figures_are_means_over_runs_with_their_spread() -> None:
    found = figures([GAINED, LESS], LAYOUTS)
    trained = found["groups"]["held-out seeds of the tasks trained on"]
    assert trained["before"]["mean"] == 2 / 8 and trained["before"]["sd"] == 0.0
    assert trained["after"]["runs"] == [7 / 8, 4 / 8]
    assert (trained["after"]["min"], trained["after"]["max"]) == (4 / 8, 7 / 8)
    assert trained["gain"]["mean"] == pytest.approx((5 / 8 + 2 / 8) / 2)
    # Student's t for one degree of freedom is 12.706; the standard error is half the difference of two.
    reach = 12.706 * (5 / 8 - 2 / 8) / 2
    assert trained["gain"]["interval"] == pytest.approx([7 / 16 - reach, 7 / 16 + reach], abs=1e-3)
    assert found["groups"]["of them on pages of fixed layout"]["tasks"] == ["still"]
    assert found["groups"]["of them of three or more actions"]["gain"]["runs"] == [2 / 4, 0.0]
    assert found["groups"]["of them of one or two actions"]["tasks"] == ["still"]
    assert found["groups"]["of these on pages"]["tasks"] == ["unseen"]
    assert not {"of them on apps", "of these on apps"} & found["groups"].keys()
    assert found["groups"]["tasks never trained on"]["gain"]["mean"] == pytest.approx(-1 / 8)
    assert found["fixed_share_of_gain"]["all"] == pytest.approx(5 / 7)
    assert found["fixed_share_of_gain"]["runs"] == pytest.approx([3 / 5, 1.0])
    assert found["pages"]["moving"]["elements"] == 40
    assert trained["baselines"] == {"random-element": 1 / 8}


def test_the_tables_say_them_in_per_cent_and_points() -> None:
    text = markdown(figures([GAINED, LESS], LAYOUTS))
    lines = text.splitlines()
    assert lines[0].startswith("2 runs with different seeds, 4 episodes a task")
    head, rule, trained, _, long, _, fixed, unseen, _ = lines[2:11]
    assert head == "| tasks | before | after | gain in points | random element |"
    assert rule.count("---") == 5
    assert trained == (
        "| held-out seeds of the tasks trained on (2) | 25 % (25–25, sd 0.0) | 69 % (50–88, sd 26.5) "
        "| +44 (−100 to +100), sd 26.5 | 12 % |"
    )
    assert long.startswith("| of them of three or more actions (1) | 25 %")
    assert fixed.startswith("| of them on pages of fixed layout (1) |") and "| +62 (" in fixed
    assert unseen.endswith("| 50 % |") and "−12" in unseen
    assert (
        "Pages of fixed layout (`still`: no element moves with the seed) hold 71 % of the gain "
        "(60 % to 100 % by run)." in lines
    )
    assert "| `still` | fixed | 25 % (25–25) | 88 % (75–100) | +62 | 25 % |" in lines
    assert "| `unseen` | 7 px | 50 % (50–50) | 38 % (25–50) | −12 | 50 % |" in lines
    assert "| 1 | 25 % | 88 % | 50 % | 25 % | 0 | 440 s | 4000 MB |" in lines


def test_an_app_has_no_layout_of_a_page() -> None:
    found = figures([GAINED], {name: one for name, one in LAYOUTS.items() if name != "unseen"})
    assert found["groups"]["of these on apps"]["tasks"] == ["unseen"]
    assert "of these on pages" not in found["groups"]
    assert "| `unseen` | an app | 50 % (50–50) | 25 % (25–25) | −25 | 50 % |" in markdown(found).splitlines()


def test_one_run_has_no_spread_and_no_gain_no_share() -> None:
    flat: dict[str, Any] = figures([run(1, still="+---", moving="+---", unseen="++--")], LAYOUTS)
    assert flat["groups"]["tasks never trained on"]["gain"] == {
        "mean": 0.0, "sd": None, "min": 0.0, "max": 0.0, "interval": None, "runs": [0.0],
    }  # fmt: skip
    assert flat["fixed_share_of_gain"] == {"all": None, "runs": [None]}
    assert "There is no gain, or no page of fixed layout" in markdown(flat)
    nowhere = figures([GAINED], dict.fromkeys(LAYOUTS, Layout(3, 3)))
    assert "of them pages of fixed layout" not in nowhere["groups"]
    assert "There is no gain, or no page of fixed layout" in markdown(nowhere)
    worse = run(2, still="----", moving="----", unseen="----")
    assert "hold 67 % of the gain." in markdown(figures([GAINED, worse], LAYOUTS))  # no range: one has none
    faulted = replace(BEFORE, episodes=tuple(replace(e, outcome="fault") for e in BEFORE.episodes))
    lost = figures([GAINED._replace(before=faulted)], LAYOUTS)
    assert lost["runs"][0]["faults"] == 12 and lost["fixed_share_of_gain"]["all"] is None


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("page", [*TRAIN_TASKS, *GROUNDING_TASKS])
async def test_pages_whose_elements_never_move_are_those_that_demonstrations_come_less_often_from(
    browser_device: Device, page: str
) -> None:
    """Measured; others move by ten pixels and more. Told the label, a click by heart hits on a fixed one."""
    found = await layout(browser_device, page, EVALUATION[:20])
    assert found.fixed == (page in FIXED_LAYOUTS)
    assert found.fixed or found.elements > 10
    if page in ("click-tab", "grid-coordinate"):
        assert found.target == 0  # the instruction alone says where
    if page == "identify-shape":
        assert found.target > 10  # one instruction, five answers: it must be seen which
