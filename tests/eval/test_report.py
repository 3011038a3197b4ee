"""The report as its reader meets it: opened in a real browser, with hostile text in every place for text."""

import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash
from PIL import Image, ImageDraw
from rich.console import Console

from eval.report.curve import CurvePoint, clock, group, training_curve
from eval.report.judged import JudgedRun, JudgedUpdate
from eval.report.overlay import describe, overlay
from eval.report.page import RunSummary, write_episodes, write_report, write_summary
from eval.report.table import print_table, score_notes
from eval.report.viewer import MAX_SHOWN, frames_of, select, shown
from eval.results import Comparison, EpisodeResult, SuiteResult
from eval.stats import Proportion, newcombe
from eval.suites.suite import Suite
from guiagent.actions import ACTION, Action, Answer, Click, Done, Drag, Scroll, Swipe, Type, Wait
from guiagent.errors import Fault, InfrastructureError
from guiagent.intervals import wilson
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from rewards.judges.calibration import calibrate
from rewards.judges.verdicts import Verdict

PAYLOAD = (
    "</pre></title></style><script>window.pwned=1</script><img src=x onerror='window.pwned=2'>"
    "\"><svg onload=window.pwned=3><a href='javascript:window.pwned=4'>x</a>\N{RIGHT-TO-LEFT OVERRIDE}\0"
)
TRAIN = ("click-color", "click-tab", "grid-coordinate")
UNSEEN = ("click-dialog",)
SUITE = Suite("miniwob-demo", "miniwob", TRAIN, UNSEEN, episodes=20, device="browser")
WIDTH, HEIGHT = 160, 224
FRAMES: dict[str, bytes] = {}


def draw(text: str, size: tuple[int, int] = (WIDTH, HEIGHT), kind: str = "jpeg") -> str:
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, size[0], 50), fill="#ffff70")
    pen.text((6, 16), text, fill="black")
    for i, colour in enumerate(("#d33", "#3a3", "#36c")):
        pen.rectangle((14 + 48 * i, 90, 50 + 48 * i, 126), fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, kind)
    name = xxhash.xxh3_128_hexdigest(buffer.getvalue())
    FRAMES[name] = buffer.getvalue()
    return name


def step(action: Action, text: str = "", size: tuple[int, int] = (WIDTH, HEIGHT), **more: Any) -> Step:
    emitted = text or f"Thought: the red one.\nAction: {describe(action)}"
    output = PolicyOutput(emitted, [ACTION.dump_python(action, mode="json")], policy_version=7)
    return Step(draw("Click on the red box.", size), *size, output, **more)


def episode(task: str, seed: int, success: bool, steps: list[Step] | None = None, **more: Any) -> Trajectory:
    return Trajectory(
        **{
            "id": f"{task}/{seed}/{success}",
            "task": task,
            "seed": seed,
            "instruction": "Click on the red box.",
            "steps": steps or [step(Click(x=32, y=108)), step(Click(x=80, y=108))],
            "stop": "task_done",
            "score": Score(float(success), reason="the page's own reward"),
            "final_frame": draw("done", kind="png"),
            **more,
        }
    )


def outcomes(label: str, successes: dict[str, int], faults: int = 0) -> SuiteResult:
    """A result with so many successes per task, and `faults` of the first task's failures as faults."""
    rows = []
    for task in SUITE.tasks:
        for i, seed in enumerate(SUITE.seeds()):
            outcome = "success" if i < successes[task] else "failure"
            if task == TRAIN[0] and i >= SUITE.episodes - faults:
                outcome = "fault"
            rows.append(EpisodeResult(task, seed, outcome, "task_done", 2, 0.1, 1, "", f"{task}/{seed}"))  # type: ignore[arg-type]
    return SuiteResult(SUITE, label, tuple(rows))


BEFORE = outcomes("before", {"click-color": 6, "click-tab": 8, "grid-coordinate": 2, "click-dialog": 5})
AFTER = outcomes(
    "after", {"click-color": 15, "click-tab": 18, "grid-coordinate": 9, "click-dialog": 7}, faults=2
)
NULL = outcomes("null", dict.fromkeys(SUITE.tasks, 0))
RANDOM = outcomes("random", dict.fromkeys(SUITE.tasks, 3))
ORACLE = outcomes("oracle", dict.fromkeys(SUITE.tasks, 20))
COMPARISON = Comparison(AFTER, BEFORE, (NULL, RANDOM, ORACLE))
RUN = RunSummary(
    title="Online RL on MiniWoB++",
    commit="0123456789abcdef",
    wall_seconds=421.0,
    episodes=1234,
    env_steps=5678,
    peak_memory_mb=2048.0,
    config={"algorithm": {"preset": "arpo", "note": PAYLOAD}},
)


def curve() -> list[CurvePoint]:
    return [
        CurvePoint(seconds=i * 0.3, task=TRAIN[i % 3], successes=int((i * 7919) % 1000 < 300 + i / 2))
        for i in range(1000)
    ]


def shown_episodes() -> list[tuple[str, Trajectory]]:
    before = [episode(task, seed, seed % 3 == 0) for task in SUITE.tasks for seed in SUITE.seeds(4)]
    after = [episode(task, seed, seed % 3 != 1) for task in SUITE.tasks for seed in SUITE.seeds(4)]
    return select(before, after, count=12)


# --- what the page is made of -------------------------------------------------------------------------------


def test_selection_pairs_the_seeds_and_mixes_outcomes_and_tasks() -> None:
    chosen = shown_episodes()
    assert len(chosen) == 12
    assert [label for label, _ in chosen] == ["before", "after"] * 6
    pairs = list(zip(chosen[::2], chosen[1::2], strict=True))
    assert all((b.task, b.seed) == (a.task, a.seed) for (_, b), (_, a) in pairs)
    assert {(b.success, a.success) for (_, b), (_, a) in pairs} == {
        (False, True),
        (True, True),
        (False, False),
    }
    assert {a.task for _, a in chosen} == set(SUITE.tasks)


def test_selection_without_a_before_mixes_successes_and_failures_and_leaves_out_faults() -> None:
    fault = episode("click-tab", 9, False, score=None, fault=Fault("device", "crashed", "gone"), stop="fault")
    after = [episode("click-tab", seed, seed < 4) for seed in range(8)] + [fault]
    chosen = select([], after, count=6)
    assert [label for label, _ in chosen] == ["episode"] * 6
    assert sum(t.success for _, t in chosen) == 3
    assert len(select([], after, count=99)) == 8


def test_groups_keep_every_episode_in_order() -> None:
    groups = group(curve(), most=40)
    assert len(groups) == 40
    assert sum(g.outcomes.n for g in groups) == 1000
    assert [g.position for g in groups] == sorted(g.position for g in groups)
    one = group(curve(), most=40, task=TRAIN[1])
    assert sum(g.outcomes.n for g in one) == sum(p.task == TRAIN[1] for p in curve())


def test_the_training_curve_leaves_faults_out_and_counts_from_the_first_start() -> None:
    fault = episode(
        "t", 1, False, score=None, fault=Fault("device", "crashed", "x"), stop="fault", started=1.0
    )
    points = training_curve(
        [episode("t", 2, True, started=105.0, seconds=2.0), fault, episode("t", 3, False, started=100.0)]
    )
    assert points == [CurvePoint(0.0, "t", 0), CurvePoint(7.0, "t", 1)]


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (421, "7:01"), (3725, "1:02:05")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_overlays_draw_where_the_action_was() -> None:
    click = overlay([Click(x=40, y=100)], WIDTH, HEIGHT)
    assert 'class="stroke" cx="40" cy="100"' in click and "<text" not in click
    assert overlay([Click(x=40, y=100, count=2)], WIDTH, HEIGHT).count('class="stroke" cx="40"') == 2
    assert '<polyline class="stroke" points="1.0,2.0 30.0,40.0"/>' in overlay(
        [Drag(path=((1, 2), (30, 40)))], WIDTH, HEIGHT
    )
    assert '<g class="mark swipe">' in overlay([Swipe(x1=5, y1=9, x2=5, y2=90)], WIDTH, HEIGHT)
    assert '<g class="mark scroll">' in overlay([Scroll(x=5, y=9, dy=120)], WIDTH, HEIGHT)
    assert overlay([Type(text="hi"), Wait(), Done()], WIDTH, HEIGHT) == ""
    two = overlay([Click(x=1, y=2), Click(x=30, y=40)], WIDTH, HEIGHT)
    assert re.findall(r">(\d)</text>", two) == ["1", "2"]


def test_frames_are_found_in_whichever_store_has_them(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "a") as first, TrajectoryStore(tmp_path / "b") as second:
        names = [first.put_frame(b"one"), second.put_frame(b"two")]
        frames = frames_of([first, second])
        assert [frames(name) for name in names] == [b"one", b"two"]
        with pytest.raises(KeyError):
            frames("0" * 32)


def test_shown_text_is_cut_escaped_and_cannot_turn_the_reading_direction() -> None:
    text = shown(PAYLOAD)
    assert "<" not in text and '"' not in text and "'" not in text and "\0" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert shown("a" * (MAX_SHOWN + 5)).endswith("… (5 more characters)")
    assert shown("\ud800x").encode() == "\N{REPLACEMENT CHARACTER}x".encode()


# --- the numbers, for programs and at a terminal ------------------------------------------------------------


def test_fractions_count_as_osworld_averages_them() -> None:
    """Two of four solved, one in part, one lost to a fault: success 50 %, mean score 0.625."""
    values = (("success", 1.0), ("success", 1.0), ("failure", 0.5), ("fault", None))
    rows = [
        EpisodeResult("a", seed, outcome, "task_done", 2, 0.1, 1, "", f"a/{seed}", value=value)
        for seed, (outcome, value) in enumerate(values)
    ]
    suite = Suite("s", "t", (), ("a",), episodes=4, device="desktop")
    result = SuiteResult(suite, "mine", tuple(rows))  # type: ignore[arg-type]
    pool = result.pooled(trained=False)
    assert (pool.scheduled.rate, pool.mean_score) == (0.5, 0.625)
    assert score_notes([result]) == [
        "mine: mean score 0.625 with the fractions of 1 episodes counted, as OSWorld averages; faults are 0"
    ]
    older = EpisodeResult("a", 0, "success", "task_done", 2, 0.1, 1, "", "a/0")
    assert older.score == 1.0


def test_summary_holds_the_figures_of_the_table(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.json", RUN, COMPARISON)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["episodes"] == 1234 and summary["wall_seconds"] == 421.0
    assert summary["peak_memory_mb"] == 2048.0 and summary["commit"] == RUN.commit
    assert [t["task"] for t in summary["tasks"]] == list(SUITE.tasks)
    assert [t["trained"] for t in summary["tasks"]] == [True, True, True, False]

    first, interval = summary["tasks"][0], wilson(15, 20)
    assert first["before"]["successes"] == 6
    assert first["after"] == {
        "n": 20,
        "successes": 15,
        "faults": 2,
        "rate": 0.75,
        "low": interval.low,
        "high": interval.high,
        "rate_without_faults": 15 / 18,
        "rate_if_faults_succeeded": 17 / 20,
        "mean_score": 0.75,
    }
    train = summary["train_pooled"]
    assert (train["before"]["n"], train["before"]["successes"], train["after"]["successes"]) == (60, 16, 42)
    change = newcombe(Proportion(16, 60), Proportion(42, 60))
    assert train["change"] == {"low": change.low, "high": change.high}
    assert train["paired"]["gained"] == 26 and train["paired"]["lost"] == 0
    assert summary["unseen_pooled"]["after"]["rate"] == pytest.approx(0.35)
    assert summary["baselines"]["oracle"]["train_pooled"]["rate"] == 1.0


def test_pairs_with_a_fault_say_nothing_about_the_training() -> None:
    faulted = replace(AFTER, episodes=tuple(replace(e, outcome="fault") for e in AFTER.episodes))
    assert Comparison(faulted, BEFORE).paired(trained=True) == (0, 0)


def test_results_of_different_suites_are_not_compared() -> None:
    other = replace(SUITE, train_tasks=("click-color",), unseen_tasks=())
    with pytest.raises(ValueError, match="different suites"):
        Comparison(AFTER, SuiteResult(other, "before", ()))


def test_piped_table_is_plain_text_with_intervals_and_fault_bounds() -> None:
    out = io.StringIO()
    print_table([NULL, AFTER], Console(file=out))
    text = out.getvalue()
    assert "\x1b" not in text and "│" not in text
    line = next(line for line in text.splitlines() if line.startswith("click-color"))
    assert line.split() == ["click-color", "0%", "(0–16)", "75%", "(53–89)", "2"]
    assert (
        "after: 2 episodes without a verdict; success on training tasks, held-out seeds 70% with them" in text
    )
    assert "70% with them as failures, 72% without them, 73% had they succeeded" in text


def test_terminal_table_draws_a_table_and_reads_no_markup_in_labels() -> None:
    out = io.StringIO()
    odd = replace(AFTER, label="[blink]after[/]")
    print_table([NULL, odd], Console(file=out, force_terminal=True, width=140))
    assert "┃" in out.getvalue() and "75% (53–89)" in out.getvalue() and "[blink]after[/]" in out.getvalue()


def test_a_report_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="choose another folder"):
        write_report(tmp_path / "file" / "report.html", RUN, COMPARISON, [], [], FRAMES.__getitem__)


# --- the page in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if executable is None:
        pytest.skip("no chromium or chromium-headless-shell on the PATH")
    with (
        sync_api.sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"]) as chromium,
    ):
        yield chromium


class Visit:
    """A page that was opened, and everything it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def report(tmp_path: Path) -> Path:
    hostile = episode(
        PAYLOAD,
        1,
        False,
        [step(Type(text=PAYLOAD), PAYLOAD, action_error=PAYLOAD), step(Answer(text=PAYLOAD), PAYLOAD)],
        instruction=PAYLOAD,
        score=Score(0.0, reason=PAYLOAD),
    )
    wide = episode("desktop", 2, True, [step(Drag(path=((320, 180), (960, 540))), size=(1280, 720))])
    fault = episode(
        "click-tab", 3, False, score=None, fault=Fault("device", "crashed", PAYLOAD), stop="fault"
    )
    lost = episode(
        "click-tab", 4, False, [Step("", 1, 1, PolicyOutput("?", error=PAYLOAD))], stop="parse_error"
    )
    odd = [(PAYLOAD, hostile), ("after", wide), ("after", fault), ("after", lost)]
    path = tmp_path / "report.html"
    run = replace(RUN, title=f"Online RL {PAYLOAD}", commit=PAYLOAD)
    points = [*curve(), CurvePoint(301.0, PAYLOAD, 1)]
    write_report(path, run, COMPARISON, points, shown_episodes() + odd, FRAMES.__getitem__)
    return path


@pytest.mark.browser
def test_hostile_text_executes_nothing_and_makes_no_element(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    page = visit.page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_timeout(100)
    assert visit.complaints == []
    assert all(url.startswith(("file:", "data:image/")) for url in visit.requests)
    assert page.evaluate("window.pwned") is None
    assert page.locator("script, iframe, object, embed, link, img, a, form, base").count() == 0
    attributes = page.evaluate("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert any("window.pwned=1" in text for text in page.locator("pre.text").all_inner_texts())

    # Even a script that got in would not run: the page's own policy forbids it.
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.pwned = 5'}))"
    )
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in complaint for complaint in visit.complaints)
    page.close()


@pytest.mark.browser
def test_the_page_shows_the_numbers_the_curve_and_the_episodes(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    page = visit.page
    row = page.locator("tbody tr", has=page.locator("th", has_text="click-color"))
    cells = [" ".join(cell.split()) for cell in row.locator("td").all_inner_texts()]
    assert cells[1:3] == ["30% 15–52", "75% 53–89"]
    assert cells[3].startswith("+45")
    assert cells[4:] == ["0%", "15%", "100%", "2"]
    pooled = page.locator("tbody.pooled tr").first.locator("td").all_inner_texts()
    assert " ".join(pooled[2].split()) == "70% 57–80"
    assert page.locator(".pool .figures").first.inner_text().split() == ["27%", "→", "70%"]
    notes = page.locator(".notes li").all_inner_texts()
    assert len(notes) == 2 and notes[1] == "after: 2 of click-color: no score"
    assert page.locator("#curve polyline.line:visible").count() == 1 + len(
        TRAIN
    )  # the hostile task has a single point
    assert page.locator("details.episode").count() >= 12
    assert page.locator("details.episode.success").count() and page.locator("details.episode.failure").count()
    assert page.locator("details.episode.fault .verdict").inner_text() == "! device fault (crashed)"
    broken = "[...document.querySelectorAll('image')].filter(i => !i.href.baseVal.startsWith('data:image/'))"
    assert page.evaluate(f"{broken}.length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.browser
def test_a_click_is_drawn_where_it_landed(browser: Any, report: Path) -> None:
    page = Visit(browser, report).page
    frame = page.locator("svg.frame:has(.mark.click)").first
    box, mark = frame.bounding_box(), frame.locator("circle.stroke").bounding_box()
    centre = (mark["x"] + mark["width"] / 2 - box["x"], mark["y"] + mark["height"] / 2 - box["y"])
    assert centre == pytest.approx((32 / WIDTH * box["width"], 108 / HEIGHT * box["height"]), abs=1.5)
    picture = frame.locator("image").bounding_box()
    assert picture["width"] == pytest.approx(box["width"], abs=2.5)
    page.close()


@pytest.mark.browser
def test_a_phone_sees_it_without_scrolling_sideways(browser: Any, report: Path) -> None:
    page = Visit(browser, report, viewport={"width": 360, "height": 740}, color_scheme="dark").page
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#curve .narrow").is_visible() and not page.locator("#curve .wide-only").is_visible()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", paper)[:3])) < 60
    page.close()


@pytest.mark.browser
def test_a_plain_evaluation_has_no_before_and_no_curve(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    comparison = Comparison(replace(AFTER, label="tiny"), baselines=(NULL, RANDOM, ORACLE))
    write_report(path, RUN, comparison, [], [], FRAMES.__getitem__)
    visit = Visit(browser, path)
    head = visit.page.locator("thead th").all_inner_texts()
    assert head == ["Task", "0 to 100%", "tiny", "null", "random", "oracle", "Faults"]
    assert visit.page.locator("#curve").count() == 0
    assert visit.page.locator(".pool .figures").all_inner_texts() == ["70%", "35%"]
    assert visit.complaints == []
    visit.page.close()


@pytest.mark.browser
def test_episodes_alone_make_a_page_too(browser: Any, tmp_path: Path) -> None:
    free = episode("run", 0, False, score=Score(None, reason="a free task has no check"), stop="agent_done")
    write_episodes(tmp_path / "run.html", PAYLOAD, [("chat", free)], FRAMES.__getitem__)
    visit = Visit(browser, tmp_path / "run.html")
    assert visit.page.locator("details.episode svg.frame .mark.click").count() == 2
    assert visit.page.locator("details.episode .verdict").inner_text() == "? no verdict"
    assert visit.complaints == [] and visit.page.locator("script, img").count() == 0
    visit.page.close()


def judged_run(**changes: Any) -> JudgedRun:
    """Ten updates: the judge passes 44 of 100, of which 40 of the 50 true successes, and cannot judge 20."""
    truths = [(True, 40, 1.0), (True, 10, 0.0), (False, 4, 1.0), (False, 46, 0.0), (True, 20, None)]
    pairs = [(truth, Verdict(value, PAYLOAD)) for truth, n, value in truths for _ in range(n)]
    run = JudgedRun(
        judge=PAYLOAD,
        updates=[JudgedUpdate(step, 3 + step % 2, 1, 1, 4) for step in range(1, 11)],
        proposals={"never_solved": 7, "accepted": 20, "duplicate": 13, PAYLOAD: 1},
        unknown={"abstained": 19, PAYLOAD: 1},
        calibration=calibrate(pairs),
    )
    return replace(run, **changes)


@pytest.mark.browser
def test_judged_success_stands_beside_true_success(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, RUN, COMPARISON, curve(), [], FRAMES.__getitem__, judged_run())
    visit = Visit(browser, path)
    section = visit.page.locator("#judged")
    lines = [section.locator(f"g.{name} polyline.line:visible") for name in ("judged", "true")]
    assert [line.count() for line in lines] == [1, 1]
    colours = {line.evaluate("e => getComputedStyle(e).stroke") for line in lines}
    assert len(colours) == 2
    tables = section.locator("table")
    record = {
        r.split("\t")[0]: r.split("\t")[1:] for r in tables.nth(0).locator("tbody tr").all_inner_texts()
    }
    assert record["Judged success"] == ["44% 35–54", "100"]
    assert record["True success"] == ["50% 40–60", "100"]
    assert record["False positives, of the true failures"] == ["8% 3–19", "50"]
    assert record["False negatives, of the true successes"] == ["20% 11–33", "50"]
    assert record["No verdict"] == ["17% 11–24", "120"]
    rows = tables.nth(1).locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[:3] for row in rows[:3]] == [
        ["accepted", "20", "49%"],
        ["duplicate", "13", "32%"],
        ["never solved", "7", "17%"],
    ]
    assert "by the judge's verdicts" in visit.page.locator("#curve .about").inner_text()
    assert visit.complaints == [] and visit.page.locator("script, img").count() == 0
    visit.page.close()


@pytest.mark.browser
def test_a_judge_that_was_never_audited_says_so(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    nothing = judged_run(updates=[], proposals={}, unknown={"unreachable": 9}, calibration=None)
    write_report(path, RUN, COMPARISON, [], [], FRAMES.__getitem__, nothing)
    visit = Visit(browser, path)
    said = visit.page.locator("#judged").inner_text()
    assert "No rollout had both a verdict and an audit. Without a verdict: 9 unreachable." in said
    assert visit.page.locator("#judged table").count() == 0 and visit.complaints == []
    visit.page.close()


def test_the_summary_holds_what_was_judged(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.json", RUN, COMPARISON, judged_run())
    judged = json.loads((tmp_path / "summary.json").read_text())["judged"]
    assert judged["updates"][0] == {
        "step": 1,
        "true_positive": 4,
        "false_positive": 1,
        "false_negative": 1,
        "true_negative": 4,
    }
    assert judged["proposals"]["accepted"] == 20 and judged["unknown"]["abstained"] == 19
    write_summary(tmp_path / "summary.json", RUN, COMPARISON)
    assert "judged" not in json.loads((tmp_path / "summary.json").read_text())
