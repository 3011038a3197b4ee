"""The page of stored episodes in a real browser: hostile text, keys, siblings side by side, pictures."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.replay.stores import stores_of, write_page
from guiagent.cli import app
from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Step
from tests.support.watched import PAYLOAD, episode, fault, picture


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


def opened(browser: Any, file: Path, complaints: list[str], requests: list[str]) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("#stage svg.frame image[href]")
    return page


@pytest.mark.browser
def test_hostile_texts_and_names_stay_text(browser: Any, tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        store.commit([episode(store, PAYLOAD, text=PAYLOAD, group=PAYLOAD), fault(store, "b", PAYLOAD)])
    file = tmp_path / "replay.html"
    write_page(stores_of(tmp_path), file, PAYLOAD)
    complaints, requests = list[str](), list[str]()
    page = opened(browser, file, complaints, requests)
    for key in ("ArrowRight", "j", "ArrowRight", "k"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("window.pwned") is None
    assert page.locator("img[src='x'], svg[onload], [onerror], a[href^='javascript']").count() == 0
    page.locator("#list .row", has_text="javascript").click()
    page.wait_for_function("document.querySelector('.instruction').textContent.includes('<script>')")
    for place in ("h1", "#viewer .text", "#viewer .score", "#list"):
        assert "<script>" in page.locator(place).first.text_content(), place
    here = file.parent.as_uri()
    assert (complaints, [one for one in requests if not one.startswith(here)]) == ([], [])
    page.close()


@pytest.mark.browser
def test_a_group_is_side_by_side_and_read_by_keyboard(browser: Any, tmp_path: Path) -> None:
    """Two stores, as an evaluation has: the episodes of a task and seed are found over both."""
    for name, text, success in (("old", "same", False), ("new", "same", True)):
        with TrajectoryStore(tmp_path / name / "trajectories") as store:
            one = episode(store, name, success, group="")
            drag = {"type": "drag", "path": [[10, 10], [100, 90 if success else 30]]}
            frame = store.put_frame(picture("#555"))
            one.steps.append(Step(frame, 160, 224, PolicyOutput(text, [drag])))
            store.commit([one])
    ran = CliRunner().invoke(app, ["replay", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert "2 episodes, 6 steps; 4 pictures" in ran.output
    complaints, requests = list[str](), list[str]()
    page = opened(browser, tmp_path / "replay.html", complaints, requests)
    assert page.locator("#others .soft").inner_text() == "they are the same for 2 steps"
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.locator("#stage svg.frame polyline.stroke").count() == 2  # the way and its head
    panels = page.locator("#others .panels button")
    assert panels.count() == 2
    told = " ".join(panels.all_inner_texts())
    assert "drag 10, 10 → 100, 90" in told
    assert "drag 10, 10 → 100, 30" in told
    first = page.locator("#viewer h3").first.inner_text()
    page.locator("#others .panels button:not(.own)").click()
    page.wait_for_function("(was) => document.querySelector('#viewer h3').innerText !== was", arg=first)
    assert page.locator(".film button").nth(2).get_attribute("aria-current") == "true"  # at the same step
    page.wait_for_function("document.querySelectorAll('.film.pictures image[href]').length === 4")
    drawn = page.locator("#stage svg.frame image").get_attribute("href")
    width = (
        "(src) => new Promise((r) => { const i = new Image(); i.onload = () => r(i.width); i.src = src; })"
    )
    assert page.evaluate(width, drawn) == 160  # the policy of the page lets its pictures in
    assert complaints == []
    page.close()


def test_one_episode_or_one_line_that_says_there_is_none(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        store.commit([episode(store, "a"), episode(store, "b")])
    page = tmp_path / "page.html"
    assert write_page(stores_of(tmp_path / "trajectories"), page, "run", "b").episodes == 1
    with pytest.raises(UsageError, match="no episode c"):
        write_page(stores_of(tmp_path), page, "run", "c")
    with pytest.raises(UsageError, match="there are no trajectories in"):
        stores_of(tmp_path / "trajectories" / "nothing")


def test_pictures_follow_no_link_that_a_strangers_folder_holds(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        one = episode(store, "a")
        store.commit([one])
    beside = tmp_path / "replay.html.frames"
    beside.mkdir()
    target = tmp_path / "mine"
    (beside / f"{one.final_frame}.png").symlink_to(target)
    write_page(stores_of(tmp_path), tmp_path / "replay.html", "run")
    assert not target.exists()
    assert (beside / f"{one.final_frame}.png").read_bytes() == picture("#3a3")
