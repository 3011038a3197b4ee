"""Libraries that others know, on leased devices: pyautogui's calls on any screen, adbutils on phones."""

import ast
import asyncio
import contextlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guiagent
from guiagent.client import FarmClient
from guiagent.client.autogui import PyAutoGUI, linear
from guiagent.client.sync import Farm
from guiagent.client.sync_device import SyncDevice
from guiagent.errors import InfrastructureError, MissingProgram, UsageError
from guiagent.wire import Endpoint
from tests.support.canvas_device import farm_of
from tests.support.pool_thread import pool_thread

# What happens on it, one word an event: m = move, d and u = button down and up, w = wheel, k = key.
PAGE = """data:text/html,<body style="margin:0;height:9999px"><textarea id=t style="width:300px;height:60px">
</textarea><script>
window.seen = [];
const at = e => e.clientX + "," + e.clientY;
addEventListener("mousemove", e => seen.push("m" + at(e)));
addEventListener("mousedown", e => seen.push("d" + e.button + "x" + e.detail + "@" + at(e)));
addEventListener("mouseup", e => seen.push("u" + e.button + "@" + at(e)));
addEventListener("contextmenu", e => e.preventDefault());
addEventListener("wheel", e => seen.push("w" + e.deltaX + "," + e.deltaY));
addEventListener("keydown", e => seen.push("k" + (e.ctrlKey ? "^" : "") + e.key));
</script>"""


@contextlib.contextmanager
def farm_with(*devices: str, home: Path) -> Iterator[Farm]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GUIAGENT_HOME", str(home))
        try:
            farm = guiagent.connect(devices=devices)
        except MissingProgram as missing:
            pytest.skip(str(missing))
        with farm:
            yield farm


# -- the same calls as the package ---------------------------------------------------------------------------

ALIASES = {"move": "moveRel", "drag": "dragRel", "vscroll": "scroll", "write": "typewrite"}
ASIDE = {"logScreenshot", "_pause"}


@pytest.fixture(scope="module")
def published() -> dict[str, dict[str, Any]]:
    """Parameters and their defaults of each of the package's functions. Read and not run: its import wants an
    X display."""
    found = importlib.util.find_spec("pyautogui")
    if found is None or found.origin is None:
        pytest.skip("pyautogui is not installed")
    constants: dict[str, Any] = {}
    functions: dict[str, dict[str, Any]] = {}
    for node in ast.parse(Path(found.origin).read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                constants[name] = value
            case ast.FunctionDef(name=name, args=arguments):
                defaults = [inspect.Parameter.empty] * (len(arguments.args) - len(arguments.defaults))
                for default in arguments.defaults:
                    match default:
                        case ast.Name(id=named):
                            defaults.append(constants.get(named, named))
                        case _:
                            defaults.append(ast.literal_eval(default))
                functions[name] = {
                    one.arg: default for one, default in zip(arguments.args, defaults, strict=True)
                }
    return functions


def test_names_and_arguments_are_those_of_the_package(published: dict[str, dict[str, Any]]) -> None:
    ours = {name for name in dir(PyAutoGUI) if name[0].islower()}
    extra = {"resolution", "screenshot", "pixel", "pixelMatchesColor"}  # it takes those from pyscreeze
    assert ours - extra - set(ALIASES) <= set(published)
    for name in sorted(ours - extra):
        theirs = published[ALIASES.get(name, name)]
        signature = inspect.signature(getattr(PyAutoGUI, name))
        if name == "hotkey":  # *args and **kwargs there
            continue
        mine = {
            one.name: "linear" if one.default is linear else one.default
            for one in signature.parameters.values()
            if one.name != "self" and one.kind is not one.VAR_KEYWORD
        }
        assert mine == {key: value for key, value in theirs.items() if key not in ASIDE}, name
        assert list(mine) == [key for key in theirs if key not in ASIDE], name


# -- a browser, which tells what it saw ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncDevice]:
    with (
        farm_with("browser@400x300", home=tmp_path_factory.mktemp("home")) as farm,
        farm.lease("browser", grants=("exec",)) as device,
    ):
        yield device


@pytest.fixture
def gui(browser: SyncDevice) -> PyAutoGUI:
    browser.reset(url=PAGE)
    return PyAutoGUI(browser)


def seen(device: SyncDevice) -> str:
    return " ".join(device.evaluate("seen.splice(0)"))


@pytest.mark.browser
def test_the_pointer_goes_where_it_is_told(browser: SyncDevice, gui: PyAutoGUI) -> None:
    assert gui.size() == (400, 300) and gui.position() == (200, 150)
    gui.moveTo(1, 1)
    seen(browser)
    gui.moveTo(100, 200)
    gui.moveRel(10, -20)
    assert gui.position() == (110, 180)
    assert seen(browser) == "m100,200 m110,180"
    gui.moveTo((5, 6))
    gui.moveTo(9999, -3)
    assert gui.position() == (399, 0)
    assert seen(browser) == "m5,6 m399,0"
    gui.moveTo(0, 100)
    seen(browser)
    gui.moveTo(100, duration=0.2)
    assert seen(browser) == "m25,100 m50,100 m75,100 m100,100"
    gui.moveTo(0, 100, 0.2, lambda n: n * n)
    assert seen(browser) == "m94,100 m75,100 m44,100 m0,100"
    assert gui.onScreen(399, 299) and not gui.onScreen((400, 0))


@pytest.mark.browser
def test_buttons_are_pressed_as_often_as_asked(browser: SyncDevice, gui: PyAutoGUI) -> None:
    gui.click(50, 200)
    gui.rightClick()
    assert [word for word in seen(browser).split() if word[0] != "m"] == [
        "d0x1@50,200",
        "u0@50,200",
        "d2x1@50,200",
        "u2@50,200",
    ]
    gui.doubleClick(60, 210)
    assert "d0x2@60,210" in seen(browser)
    gui.click(60, 220, clicks=2, interval=0.01, button="middle")
    assert seen(browser).count("d1") == 2
    gui.mouseDown(10, 200)
    gui.mouseUp(30, 220, button=1)
    said = seen(browser)
    assert said.index("d0x1@10,200") < said.index("m30,220") < said.index("u0@30,220")
    for duration in (0.0, 0.2):
        gui.moveTo(100, 150)
        seen(browser)
        gui.dragTo(150, 200, duration)
        said = seen(browser)
        assert said.removeprefix("m100,150 ").startswith("d0x1@100,150 m")
        assert said.endswith("m150,200 u0@150,200")
        assert gui.position() == (150, 200)


@pytest.mark.browser
def test_the_wheel_turns_by_clicks(browser: SyncDevice, gui: PyAutoGUI) -> None:
    gui.scroll(-2, 100, 200)
    gui.hscroll(1)
    assert [word for word in seen(browser).split() if word[0] == "w"] == ["w0,106", "w53,0"]
    assert browser.evaluate("scrollY") == 106


@pytest.mark.browser
def test_keys_by_their_names(browser: SyncDevice, gui: PyAutoGUI) -> None:
    gui.click(50, 30)
    gui.write("one two")
    gui.write("!?", interval=0.01)
    gui.write(["left", "x", "end", "\n"])
    assert browser.evaluate("t.value") == "one two!x?\n"
    gui.hotkey("ctrl", "a")
    gui.press("delete")
    assert browser.evaluate("t.value") == ""
    seen(browser)
    gui.press(["pgdn", "f5", "esc"], presses=2)
    assert seen(browser).split() == ["kPageDown", "kF5", "kEscape"] * 2
    with gui.hold("shiftleft"):
        gui.press("tab")
    assert seen(browser).split() == ["kShift", "kTab"]
    gui.hotkey(["ctrlright", "b"], interval=0.01)
    assert seen(browser).split() == ["k^Control", "k^b"]


@pytest.mark.browser
def test_pictures_of_the_screen(gui: PyAutoGUI, browser: SyncDevice, tmp_path: Path) -> None:
    browser.open("data:text/html,<body style='background:rgb(1,200,3)'>")
    assert gui.screenshot().size == (400, 300)
    assert gui.screenshot(tmp_path / "a.png", region=(10, 20, 30, 40)).size == (30, 40)
    assert (tmp_path / "a.png").exists()
    assert gui.pixel(399, 299) == (1, 200, 3)
    assert gui.pixelMatchesColor(5, 5, (3, 198, 3), tolerance=2)
    assert not gui.pixelMatchesColor(5, 5, (9, 200, 3))
    with pytest.raises(UsageError, match="cannot write /nonexistent/"):
        gui.screenshot("/nonexistent/a.png")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda gui: gui.press("anykey"), "no key is called 'anykey'"),
        (lambda gui: gui.click(1, 1, button="thumb"), "there is no button 'thumb'"),
        (lambda gui: gui.click("button.png"), "pictures are not looked for"),
    ],
)
def test_what_cannot_be_is_one_line(gui: PyAutoGUI, call: Any, says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}[^\n]*$"):
        call(gui)
    with pytest.raises(TypeError, match="duraton"):
        gui.moveTo(1, 1, duraton=2)


# -- a desktop and a phone -----------------------------------------------------------------------------------


def test_a_host_script_works_on_a_desktop(tmp_path: Path) -> None:
    with (
        farm_with("desktop@800x600", home=tmp_path) as farm,
        farm.lease("desktop", grants=("shell", "files")) as device,
    ):
        gui = device.pyautogui
        assert gui is device.pyautogui
        assert gui.size() == (800, 600)
        device.open("xterm")
        gui.write("cat > /tmp/said\n")
        gui.typewrite("hello there", interval=0.01)
        gui.press("enter")
        gui.hotkey("ctrl", "d")
        gui.moveTo(123, 45, duration=0.2)
        assert device.get("/tmp/said") == b"hello there\n"
        pointer = "from Xlib import display as d; p = d.Display().screen().root.query_pointer(); "
        there = device.exec("/usr/bin/python3", "-c", pointer + "print(p.root_x, p.root_y)")
        assert there.stdout == "123 45\n", there.stderr


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    with farm_with("phone", home=tmp_path_factory.mktemp("home")) as farm:
        yield farm


@pytest.mark.browser
def test_adbutils_drives_a_leased_phone(phones: Farm) -> None:
    with phones.lease("phone", grants=("shell",)) as device:
        with device.adb() as adb:
            assert adb.prop.model == "guiagent virtual phone"
            adb.app_start("com.android.settings")
            assert adb.app_current().package == "com.android.settings"
            assert adb.screenshot().size == adb.window_size() == device.screenshot().size
            serial = adb.serial
        import adbutils

        assert serial not in [one.serial for one in adbutils.adb.device_list()]


@pytest.mark.browser
async def test_adbutils_drives_a_phone_leased_by_a_coroutine(phones: Farm) -> None:
    pool = phones._endpoint
    async with FarmClient(pool.url, pool.token) as client:
        async with client.lease("phone", grants=("shell",)) as device, device.adb() as adb:
            assert await asyncio.to_thread(adb.shell, "settings get global device_name")
        async with client.lease("phone") as bare:
            with pytest.raises(UsageError, match=r'grants=\["shell"\]'):
                async with bare.adb():
                    pass


@pytest.mark.browser
def test_a_host_script_works_on_a_phone(phones: Farm) -> None:
    with phones.lease("phone", grants=("shell",)) as device:
        gui = device.pyautogui
        device.open("Calculator")
        with device.adb() as adb:
            views = {view.attrib["text"]: view.attrib["bounds"] for view in _nodes(adb.dump_hierarchy())}
            for key in "7", "8":
                left, top, right, bottom = json.loads("[" + views[key].replace("][", ",").strip("[]") + "]")
                gui.click((left + right) // 2, (top + bottom) // 2)
            assert "78" in {view.attrib["text"] for view in _nodes(adb.dump_hierarchy())}
        gui.moveTo(360, 640)
        gui.dragRel(0, -200)
        gui.scroll(-3)
        assert gui.position() == (360, 440)
        with pytest.raises(UsageError):
            gui.mouseDown()


def _nodes(dump: str) -> list[Any]:
    from lxml import etree

    return list(etree.fromstring(dump.encode()).iter("node"))


# -- what is missing -----------------------------------------------------------------------------------------


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Endpoint]:
    with pool_thread(farm_of(1, tmp_path)) as endpoint:
        yield endpoint


def test_without_adbutils_one_line_says_what_to_install(
    echo: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "adbutils", None)
    with (
        guiagent.connect(echo.url, echo.token) as farm,
        farm.lease("sim", grants=("shell",)) as device,
        pytest.raises(MissingProgram, match=r"pip install 'guiagent\[android\]'"),
        device.adb(),
    ):
        pass


def test_a_device_that_speaks_no_adb_is_one_line(echo: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its service sends back what it is sent, which is no adb."""
    monkeypatch.setattr("guiagent.client.device.MARGIN_S", 2.0)
    with (
        guiagent.connect(echo.url, echo.token) as farm,
        farm.lease("sim", grants=("shell",)) as device,
        pytest.raises(InfrastructureError, match=f"^adb does not connect to {device.id}: "),
        device.adb(),
    ):
        pass


# -- Playwright on a leased browser --------------------------------------------------------------------------


@pytest.mark.browser
def test_playwright_drives_a_leased_browser_from_blocking_code(tmp_path: Path) -> None:
    with (
        farm_with("browser=1@320x240,cdp", home=tmp_path) as farm,
        farm.lease("browser", needs=["cdp"], grants=["exec"]) as device,
    ):
        device.open("data:text/html,<title>before</title>")
        with device.page() as page:
            assert page.title() == "before"
            page.evaluate("document.title = 'after'")
        assert device.observe(page=True).title == "after"


def test_without_playwright_the_way_out_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(MissingProgram, match=r"pip install 'guiagent\[browser\]'"), SyncDevice.page(None):  # type: ignore[arg-type]
        pass
