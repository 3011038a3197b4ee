"""The live page in a real browser: hostile text in every place, growth, keys, no request to anywhere else."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eval.watch.page import exported
from eval.watch.run import WatchedRun
from eval.watch.screens import FarmScreens
from guiagent.client.sync import connect
from guiagent.storage.trajectories import TrajectoryStore
from tests.support.canvas_device import farm_of
from tests.support.pool_thread import pool_thread
from tests.support.watched import PAYLOAD, episode, line, serving, write_run

pytestmark = pytest.mark.browser
SIZES = [(1280, 800), (390, 844)]


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


@contextmanager
def visit(browser: Any, url: str, size: tuple[int, int] = SIZES[0]) -> Iterator[Any]:
    """A page on `url`; it may neither complain nor ask anybody but the server it came from."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    page.wait_for_selector("svg.frame image[href]")
    yield page
    origin = url.partition("#")[0]
    elsewhere = [r for r in requests if not r.startswith((origin, f"blob:{origin}", "data:image/"))]
    assert (complaints, elsewhere) == ([], [])
    page.close()


@pytest.fixture(params=["served", "exported"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of the page of a run whose every text is hostile."""
    root = write_run(tmp_path / "run", text=PAYLOAD)
    if request.param == "served":
        with serving(root, name=PAYLOAD) as server:
            yield server.url
    else:
        file = tmp_path / "page.html"
        file.write_text(exported(WatchedRun(root, PAYLOAD, PAYLOAD), PAYLOAD))
        yield file.as_uri()


def test_hostile_text_stays_text(browser: Any, hostile: str) -> None:
    with visit(browser, hostile) as page:
        for key in ("ArrowRight", "j", "ArrowRight", "j", "k"):
            page.keyboard.press(key)
            page.wait_for_timeout(50)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.locator(".chart select").select_option(index=0)
        page.locator(".chart svg").first.hover()
        assert page.evaluate("window.pwned") is None
        strangers = (
            "img[src='x'], svg[onload], [onerror], a[href^='javascript'], body script:not(#data) ~ script"
        )
        assert page.locator(strangers).count() == 0
        assert page.locator("h1").inner_text() == PAYLOAD
        for place in ("#viewer", "#task-rows", "#event-rows", "#warnings", "#config", "#charts", "#list"):
            assert "<script>" in page.locator(place).text_content(), place


def test_the_policy_of_the_page_forbids_script_from_text(browser: Any, tmp_path: Path) -> None:
    """Even if a text became markup, it would not run: the page's own script is allowed by its hash alone."""
    with serving(write_run(tmp_path / "run")) as server:
        page = browser.new_page()
        page.goto(server.url)
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', \"<img src=x onerror='window.pwned=1'>\")"
        )
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'pwned=2'}))"
        )
        page.wait_for_timeout(200)
        assert page.evaluate("window.pwned") is None
        answered = page.evaluate("fetch('http://127.0.0.1:1/').then(() => 'let through', () => 'refused')")
        assert answered == "refused"
        page.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_page_fits_and_grows_while_the_run_does(
    browser: Any, tmp_path: Path, size: tuple[int, int]
) -> None:
    root = write_run(tmp_path / "run")
    with serving(root) as server, visit(browser, server.url, size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.locator("#list .row").count() == 3
        page.evaluate("window.kept = document.querySelector('.chart')")
        with (root / "metrics.jsonl").open("a") as file:
            file.write(line(41, warnings=["3 updates in a row taught nothing"]))
        with TrajectoryStore(root / "trajectories") as store:
            store.commit([episode(store, "e3", False)])
        page.wait_for_selector("#list .row:nth-child(4)")
        page.locator("#warnings", has_text="taught nothing").wait_for()
        assert page.locator(".tile", has_text="step").first.inner_text().startswith("41")
        page.locator("#viewer h3", has_text="failure").wait_for()  # the newest is opened
        assert page.evaluate("window.kept.isConnected")  # not a whole reload
        assert page.evaluate("location.hash").startswith("#token=")
        page.locator("a[href='#settings']").click()
        assert page.evaluate("location.hash").startswith("#token=")  # and so a reload still gets in


def test_episodes_and_curves_are_read_by_keyboard(browser: Any, tmp_path: Path) -> None:
    with serving(write_run(tmp_path / "run")) as server, visit(browser, server.url) as page:
        current = page.locator(".film [aria-current=true]")
        assert current.inner_text() == "1"
        for expected in ("2", "end", "end"):
            page.keyboard.press("ArrowRight")
            assert current.inner_text() == expected
        page.keyboard.press("j")
        page.locator("#viewer h3", has_text="fault").wait_for()
        page.keyboard.press("k")
        page.locator("#viewer h3", has_text="success").wait_for()
        page.locator("#verdicts").select_option("failure")
        assert page.locator("#list .row").count() == 1
        page.locator(".chart svg").first.focus()
        page.keyboard.press("ArrowLeft")
        assert "step 40" in page.locator("#tip").inner_text()
        page.keyboard.press("ArrowLeft")
        assert "step 39" in page.locator("#tip").inner_text()
        unnamed = page.evaluate(
            "[...document.querySelectorAll('svg[role=img], select, [role=listbox], section')].filter((one) =>"
            " one.checkVisibility() && !one.ariaLabel && !one.getAttribute('aria-labelledby')"
            " && !one.labels?.length).length"
        )
        assert unnamed == 0


def test_the_screens_of_a_farm_are_shown_while_its_pool_answers(browser: Any, tmp_path: Path) -> None:
    with (
        pool_thread(farm_of(1, tmp_path / "pool")) as endpoint,
        serving(write_run(tmp_path / "run"), FarmScreens(lambda: endpoint)) as server,
        visit(browser, server.url) as page,
        connect(endpoint.url, token=endpoint.token) as farm,
        farm.lease("sim") as device,
    ):
        device.screenshot()
        page.locator("#screens").scroll_into_view_if_needed()
        page.locator("#screens-of", has_text="now").wait_for()
        page.locator("#grid img[src^='blob:']").wait_for()
