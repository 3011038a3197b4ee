"""OSWorld's getters against a real guest server: what is there, what is not, and what makes no sense."""

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openpyxl import Workbook

from guiagent.errors import FaultError
from rewards.checks import devtools, getters, guest
from rewards.checks.assets import Assets
from rewards.checks.getters import configs, files, page, profile, rules, slides, tabs
from rewards.checks.guest import Guest, TooLong
from rewards.checks.workspace import Workspace
from tests.support.osworld_guest import Canned, Desktop, guest_server, http, workspace


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    with guest_server(tmp_path_factory.mktemp("home")) as started:
        yield started


@pytest.fixture
def home(desktop: Desktop) -> Path:
    return desktop.path.parent


@pytest.fixture
def work(desktop: Desktop, tmp_path: Path) -> Workspace:
    return workspace(desktop, tmp_path)


async def get(work: Workspace, kind: str, **config: Any) -> Any:
    return await getters.load(kind)(work, getters.parse(kind, {"type": kind, **config}))


def put(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def packed(**parts: str | bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in parts.items():
            package.writestr(name, data)
    return file.getvalue()


def damaged(package: bytes) -> bytes:
    """The package with other bytes in place of what its members are compressed to."""
    data = bytearray(package)
    with zipfile.ZipFile(io.BytesIO(package)) as parts:
        for part in parts.infolist():
            start = part.header_offset + 30 + len(part.filename.encode())
            data[start : start + part.compress_size] = b"\xff" * part.compress_size
    return bytes(data)


def encrypted(package: bytes) -> bytes:
    """The package with every member marked as encrypted."""
    data = bytearray(package)
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        start = data.find(signature)
        while start >= 0:
            data[start + flags] |= 1
            start = data.find(signature, start + 1)
    return bytes(data)


# -- all of them ---------------------------------------------------------------------------------------------


def test_every_getter_can_be_loaded_and_none_is_both_there_and_left_out() -> None:
    for name in getters.GETTERS:
        assert callable(getters.load(name))
    assert not set(getters.GETTERS) & set(getters.UNSUPPORTED)
    assert set(getters.GETTERS) >= getters.ON_HOST


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("vm_file", {"dest": "a"}),
        ("vm_file", {"path": ["a", "b"], "dest": ["a", "b"]}),
        ("vm_file", {"path": ["a", "b"], "dest": ["a"], "multi": True}),
        ("vm_file", {"path": ["a"], "dest": ["a"], "multi": True, "gives": [1]}),
        ("vm_file", {"path": "a", "dest": "a", "multi": True}),
        ("vm_command_line", {"command": 7}),
        ("rule_relativeTime", {"rules": {"expected": {}}}),
        ("audio_in_slide", {"ppt_file_path": "a", "slide_index": "first", "dest": "a"}),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(kind: str, config: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        getters.parse(kind, config)


# -- the server in the guest ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", b"\0\1\2\r\n\r\n"]
)
async def test_a_server_that_breaks_off_is_a_device_fault(tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(FaultError) as failed:
        await Guest(Canned(answer)).read("/etc/hosts")
    assert failed.value.fault.origin == "device" and failed.value.fault.retryable


async def test_a_server_that_is_not_there_is_a_device_fault(tmp_path: Path) -> None:
    with pytest.raises(FaultError) as failed:
        await Guest(Desktop(tmp_path / "none")).execute(["true"])
    assert failed.value.fault.code == "unreachable"


async def test_a_guest_without_a_screen_is_unfit_and_no_zero(work: Workspace) -> None:
    with pytest.raises(FaultError) as failed:
        await get(work, "vm_screen_size")
    assert (failed.value.fault.origin, failed.value.fault.code) == ("device", "unfit")


async def test_an_answer_is_bounded(tmp_path: Path) -> None:
    asked = Guest(Canned(http(b"x" * 100)))
    assert (await asked.ask("GET", "/", limit=100)).body == b"x" * 100
    with pytest.raises(TooLong):
        await asked.ask("GET", "/", limit=99)


@pytest.mark.parametrize(
    "body",
    [b"no JSON", b"[1]", b"[" * 100_000, b'{"output": {}, "returncode": "x"}', b'{"output": "\xff"}'],
)
async def test_answers_that_make_no_sense_are_nothing(tmp_path: Path, body: bytes) -> None:
    done = await Guest(Canned(http(body))).execute(["true"])
    assert done is None or (done.output, done.error, done.code) == ("", "", -1)


async def test_what_is_written_can_be_read_back(work: Workspace, home: Path) -> None:
    data = bytes(range(256)) * 4000
    assert (await work.guest.write(str(home / "new" / "file"), data)).ok
    assert await work.guest.read("~/new/file") == data


# -- files ---------------------------------------------------------------------------------------------------


async def test_vm_file(work: Workspace, home: Path) -> None:
    put(home / "vm" / "a.txt", "first")
    put(home / "vm" / "b.txt", "second")
    brought = await get(work, "vm_file", path=f"{home}/vm/a.txt", dest="a.txt")
    assert brought.read_text() == "first" and brought.name == "a.txt"
    assert await get(work, "vm_file", path=f"{home}/vm/none.txt", dest="a.txt") is None
    assert not work.result("a.txt").exists(), "an earlier result must not stay in the place of a missing one"
    assert await get(work, "vm_file", path=f"{home}/vm", dest="folder") is None
    many = {"path": [f"{home}/vm/{name}" for name in ("a.txt", "none", "b.txt")], "dest": ["a", "n", "b"]}
    assert (await get(work, "vm_file", **many, multi="true")).read_text() == "first"
    assert work.result("b").read_text() == "second", "files that are not given lie beside those that are"
    first, none = await get(work, "vm_file", **many, multi=True, gives=[0, 1])
    assert first.read_text() == "first" and none is None
    dated = await get(
        work, "vm_file", path=f"{home}/vm/a.txt", dest="a.txt", time_suffix=True, time_format="%Y"
    )
    assert dated.name == "a_2026.txt"


async def test_a_file_that_is_too_large_counts_as_missing(
    work: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(home / "large", b"x" * 1001)
    assert await get(work, "vm_file", path=str(path), dest="large") is not None
    monkeypatch.setattr(guest, "MAX_FILE", 1000)
    assert await get(work, "vm_file", path=str(path), dest="large") is None


@pytest.mark.parametrize("dest", ["../escaped", "/tmp/escaped", "", ".", "a/../../b"])
async def test_a_task_cannot_write_elsewhere_on_the_host(work: Workspace, home: Path, dest: str) -> None:
    with pytest.raises(FaultError) as failed:
        await get(work, "vm_file", path=str(put(home / "x", "x")), dest=dest)
    assert failed.value.fault.code == "bad_task"


async def test_cloud_file(work: Workspace, tmp_path: Path) -> None:
    url = "https://assets.example/gold%20files/a.xlsx"
    with pytest.raises(FaultError) as failed:
        await get(work, "cloud_file", path=url, dest="gold.xlsx")
    assert (failed.value.fault.origin, failed.value.fault.code) == ("task", "missing_asset")
    mirrored = put(tmp_path / "mirror/assets.example/gold files/a.xlsx", "gold")
    gold = await get(work, "cloud_file", path=url, dest="gold.xlsx")
    assert gold.read_text() == "gold" and gold.name == "gold.xlsx" and gold != mirrored
    assert gold.parent != work.result("gold.xlsx").parent
    both = await get(work, "cloud_file", path=[url, url], dest=["one", "two"], multi=True, gives=[0, 1])
    assert [path.read_text() for path in both] == ["gold", "gold"]


async def test_an_asset_outside_of_the_mirror_is_missing(tmp_path: Path) -> None:
    put(tmp_path / "secret", "secret")
    assets = Assets(tmp_path / "cache", tmp_path / "mirror" / "deep", download=False)
    for url in (
        "https://x/../../../secret",
        "https://x/%2e%2e/%2e%2e/%2e%2e/secret",
        "file:///etc/hosts",
        "x",
    ):
        with pytest.raises(FaultError):
            await assets.get(url)


async def test_cache_file(work: Workspace) -> None:
    assert await get(work, "cache_file", path="diff.out") is None
    work.result("diff.out").write_text("")
    assert (await get(work, "cache_file", path="diff.out")).read_text() == ""


async def test_content_from_vm_file(work: Workspace, home: Path) -> None:
    book = Workbook()
    assert book.active is not None
    for row in (("Name", "Count"), ("Ada", 3), ("Grace", None)):
        book.active.append(row)
    book.save(home / "rows.xlsx")
    asked = {"file_type": "xlsx", "file_content": "last_row"}
    assert await get(work, "content_from_vm_file", path=f"{home}/rows.xlsx", **asked) == ["Grace", "nan"]
    assert await get(work, "content_from_vm_file", path=f"{home}/none.xlsx", **asked) is None
    whole = (home / "rows.xlsx").read_bytes()
    unreadable = (b"", b"PK\3\4 broken", packed(a="b"), whole[:900], damaged(whole), encrypted(whole))
    for data in unreadable:
        path = put(home / "bad.xlsx", data)
        assert await get(work, "content_from_vm_file", path=str(path), **asked) is None
    with pytest.raises(FaultError, match="bad_task"):
        await get(work, "content_from_vm_file", path="x", file_type="csv", file_content="last_row")


def test_a_workbook_that_unpacks_to_too_much_is_not_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Workbook()
    assert book.active is not None
    book.active.append(["x"])
    book.save(home / "bomb.xlsx")
    monkeypatch.setattr(files, "_MAX_SHEET", 100)
    assert files.last_row(home / "bomb.xlsx") is None


async def test_settings_of_applications(work: Workspace, home: Path) -> None:
    assert await get(work, "gimp_config_file", file_name="gimprc", dest="gimprc") is None
    put(home / ".config/GIMP/2.10/gimprc", "(theme)")
    assert (await get(work, "gimp_config_file", file_name="gimprc", dest="gimprc")).read_text() == "(theme)"
    assert await get(work, "vlc_config", dest="vlcrc") is None
    put(home / ".config/vlc/vlcrc", "[core]")
    assert (await get(work, "vlc_config", dest="vlcrc")).read_text() == "[core]"
    asked = {"vscode_extension_command": "OSWorld", "path": f"{home}/names", "dest": "names"}
    assert await get(work, "vscode_config", **asked) is None
    put(home / "names", "project")
    assert (await get(work, "vscode_config", **asked)).read_text() == "project"


# -- slides --------------------------------------------------------------------------------------------------

RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Type="http://x/{kind}" Target="{target}"/></Relationships>'
)
SLIDE = (
    '<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><p:bg><p:bgPr>'
    '<a:blip r:embed="rId1"/></p:bgPr></p:bg></p:sld>'
)
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'


def deck(kind: str, target: str, slide: str = SLIDE, **media: bytes) -> bytes:
    relations = RELATIONS.format(kind=kind, target=target)
    parts = {"ppt/slides/slide1.xml": slide, "ppt/slides/_rels/slide1.xml.rels": relations}
    return packed(**parts, **{f"ppt/media/{name}": data for name, data in media.items()})


@pytest.mark.parametrize(
    ("kind", "getter"), [("audio", "audio_in_slide"), ("image", "background_image_in_slide")]
)
async def test_media_of_a_slide(work: Workspace, home: Path, kind: str, getter: str) -> None:
    path = str(home / "deck.pptx")
    asked = {"ppt_file_path": path, "slide_index": 0, "dest": "media.bin"}
    put(home / "outside.bin", "outside")
    for data, expected in (
        (deck(kind, "../media/m", m=b"inside"), b"inside"),
        (deck(kind, "/ppt/media/m", m=b"inside"), b"inside"),
        (deck(kind, f"file://{home}/outside.bin"), b"outside"),
        (deck(kind, f"file://{home}/missing.bin"), None),
        (deck(kind, "../media/gone"), None),
        (deck("video", "../media/m", m=b"inside"), None),
        (deck(kind, "../media/m", slide=BOMB, m=b"inside"), b"inside" if kind == "audio" else None),
        (packed(a="b"), None),
        (b"no package", None),
        (damaged(deck(kind, "../media/m", m=b"inside")), None),
        (encrypted(deck(kind, "../media/m", m=b"inside")), None),
    ):
        put(home / "deck.pptx", data)
        found = await get(work, getter, **asked)
        assert (found.read_bytes() if found else None) == expected
    assert await get(work, getter, **{**asked, "slide_index": 4}) is None
    assert await get(work, getter, **{**asked, "ppt_file_path": f"{home}/none.pptx"}) is None


def test_media_that_unpack_to_too_much_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "deck.pptx", deck("audio", "../media/m", m=bytes(101)))
    assert slides._audio(path, 0) == bytes(101)
    monkeypatch.setattr(slides, "_MAX_MEDIA", 100)
    assert slides._audio(path, 0) is None


# -- rules ---------------------------------------------------------------------------------------------------


async def test_a_rule_is_given_as_it_stands(work: Workspace) -> None:
    assert await get(work, "rule", rules={"expected": ["a"]}) == {"expected": ["a"]}


@pytest.mark.parametrize(
    ("words", "today", "day"),
    [  # 2026-11-21 is a Saturday
        ("tomorrow", "2026-11-30", "2026-12-01"),
        ("this month", "2026-11-21", "2026-11-21"),
        ("5th next month", "2026-12-31", "2027-01-05"),
        ("10th next month", "2026-01-31", "2026-02-10"),
        ("11th next month", "2026-11-21", "2026-12-11"),
        ("this Saturday", "2026-11-16", "2026-11-21"),
        ("next Monday", "2026-11-21", "2026-11-23"),
        ("next Monday", "2026-11-23", "2026-11-30"),
        ("next Friday", "2026-11-19", "2026-11-20"),
        ("next Friday", "2026-11-20", "2026-11-27"),
        ("next Saturday", "2026-11-22", "2026-11-28"),
        ("next Sunday", "2026-11-22", "2026-11-29"),
        ("next week Friday", "2026-11-16", "2026-11-27"),
        ("next week Saturday", "2026-11-22", "2026-11-28"),
        ("next week Sunday", "2026-11-21", "2026-11-29"),
        ("first monday four months later", "2026-11-21", "2027-03-01"),
        ("first monday four months later", "2026-08-01", "2026-12-07"),
        ("first monday eight months later", "2026-11-21", "2027-07-05"),
    ],
)
def test_the_day_that_words_mean(words: str, today: str, day: str) -> None:
    assert f"{rules._day(words, datetime.fromisoformat(today)):%Y-%m-%d}" == day


async def test_dates_are_written_into_a_rule(work: Workspace) -> None:
    expected = {"from": "{DoW}, {Month} {Day0D}", "to": "{MonthFull} {DayD}, {Year}", "city": "{DoW}"}
    asked = {"relativeTime": {"from": "next Friday", "to": "next Sunday"}, "expected": expected}
    found = await get(work, "rule_relativeTime", rules=asked)
    assert found["expected"] == {"from": "Fri, Nov 27", "to": "November 29, 2026", "city": "{DoW}"}
    zoned = {
        "relativeTime": {"from": "tomorrow"},
        "timezone": "Pacific/Auckland",
        "expected": {"time": "{Month0D}-{DayD}"},
    }
    assert (await get(work, "rule_relativeTime", rules=zoned))["expected"] == {"time": "11-23"}
    week = {"relativeTime": {"from": "next Monday split", "to": "next Friday split"}}
    fields = {"puDay": "{DayD}", "puMonth": "{MonthD}", "puYear": "{Year}"}
    fields |= {"doDay": "{DayD}", "doMonth": "{month}", "doYear": "{Year}"}
    split = (await get(work, "rule_relativeTime", rules={**week, "expected": fields}))["expected"]
    assert list(split.values()) == ["23", "11", "2026", "27", "november", "2026"]


@pytest.mark.parametrize(
    "asked",
    [
        {"relativeTime": {"from": "yesterday"}, "expected": {"time": ""}},
        {"relativeTime": {"from": "tomorrow"}, "expected": {"date": ""}},
        {"relativeTime": {"from": "tomorrow"}, "expected": {"time": ""}, "timezone": "Atlantis"},
        {"relativeTime": {"from": "tomorrow"}, "expected": {"time": ""}, "timezone": "../etc"},
    ],
)
async def test_a_relative_time_that_makes_no_sense_is_a_fault(work: Workspace, asked: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match="bad_task"):
        await get(work, "rule_relativeTime", rules=asked)


# -- the desktop ---------------------------------------------------------------------------------------------


async def test_what_commands_print(work: Workspace) -> None:
    assert (
        await get(work, "vm_command_line", command=["echo", "{SCREEN_WIDTH_HALF} {CLIENT_PASSWORD}"])
        == "640 password\n"
    )
    assert await get(work, "vm_command_line", command="echo a; echo b >&2", shell="true") == "a\n"
    assert await get(work, "vm_command_error", command="echo a; echo b >&2", shell=True) == "b\n"
    assert await get(work, "vm_command_line", command=["no-such-program"]) is None
    assert await get(work, "vm_command_error", command=["no-such-program"]) is None
    assert await get(work, "vm_command_line", command="exit 3", shell=True) == ""


async def test_list_directory(work: Workspace, home: Path) -> None:
    put(home / "listed" / "deep" / "a.txt", "a")
    tree = await get(work, "list_directory", path=f"{home}/listed")
    assert tree["children"][0]["children"] == [{"type": "file", "name": "a.txt"}]
    assert await get(work, "list_directory", path=f"{home}/listed/deep/a.txt") is None


async def test_shortcuts_on_desktop(work: Workspace, home: Path) -> None:
    assert await get(work, "shortcuts_on_desktop") == {}
    put(home / "Desktop" / "Paint.desktop", "[Desktop Entry]\nName=Paint")
    put(home / "Desktop" / "notes.txt", "x")
    (home / "Desktop" / "broken.desktop").symlink_to("nowhere")
    assert await get(work, "shortcuts_on_desktop") == {"Paint.desktop": "[Desktop Entry]\nName=Paint"}


async def test_default_video_player(work: Workspace, home: Path) -> None:
    script = (
        '#!/bin/sh\ncase "$3" in video/mp4|video/webm) echo mpv.desktop;; video/x-*) echo vlc.desktop;; esac'
    )
    put(home / "bin" / "xdg-mime", script).chmod(0o755)
    assert await get(work, "default_video_player") == "vlc.desktop"
    put(home / "bin" / "xdg-mime", "#!/bin/sh\nexit 4")
    assert await get(work, "default_video_player") == "unknown"


@pytest.mark.parametrize(("kind", "config"), [("vlc_playing_info", {"dest": "s"}), ("open_tabs_info", {})])
async def test_programs_that_do_not_run_have_nothing_to_say(
    work: Workspace, kind: str, config: dict[str, str]
) -> None:
    assert not await get(work, kind, **config)


@pytest.mark.parametrize(
    ("kind", "config", "answer", "found"),
    [
        ("vm_terminal_output", {}, {"output": "$ ls", "status": "success"}, "$ ls"),
        ("vm_terminal_output", {}, {"output": None, "status": "success"}, None),
        ("vm_terminal_output", {}, {"output": 7}, None),
        ("accessibility_tree", {}, {"AT": "<desktop-frame/>"}, "<desktop-frame/>"),
        ("accessibility_tree", {}, {"AT": BOMB}, None),
        ("accessibility_tree", {}, {}, None),
        ("vm_screen_size", {}, {"width": 8, "height": 6}, {"width": 8, "height": 6}),
        ("vm_window_size", {"app_class_name": "vlc"}, {"width": 8, "height": 6}, {"width": 8, "height": 6}),
        ("vm_window_size", {"app_class_name": "vlc"}, {}, None),
    ],
)
async def test_answers_of_the_server(
    tmp_path: Path, kind: str, config: dict[str, str], answer: object, found: object
) -> None:
    body = json.dumps(answer).encode()
    assert await get(workspace(Canned(http(body)), tmp_path), kind, **config) == found
    gone = workspace(Canned(http(b"{}", "404 Not Found")), tmp_path)
    assert await get(gone, kind, **config) is None


async def test_vm_wallpaper(tmp_path: Path) -> None:
    there = workspace(Canned(http(b"\x89PNG")), tmp_path)
    assert (await get(there, "vm_wallpaper", dest="paper.png")).read_bytes() == b"\x89PNG"
    for answer in (http(b""), http(b"{}", "404 Not Found")):
        none = workspace(Canned(answer), tmp_path)
        assert await get(none, "vm_wallpaper", dest="paper.png") is None


# -- Chrome's profile ----------------------------------------------------------------------------------------

PREFERENCES = {
    "default_search_provider_data": {"template_url_data": {"short_name": "DuckDuckGo"}},
    "enable_do_not_track": True,
    "extensions": {
        "settings": {"a": {"path": "/opt/ext", "manifest": {"name": "Ext"}}, "b": {"path": 7}, "c": 1}
    },
    "profile": {"name": "Ada", "default_content_setting_values": {"cookies": 4}},
    "safebrowsing": {"enabled": False, "enhanced": True},
    "session": {"restore_on_startup": 4},
    "webkit": {"webprefs": {"default_font_size": 20}},
}
FONTS = {"default_fixed_font_size": 13, "default_font_size": 16, "minimum_font_size": 13}


async def test_a_profile_that_is_no_json_has_chromes_defaults(work: Workspace, home: Path) -> None:
    for data in (b"{", b'{"profile": {"name": "\xff"}}', b"[" * 100_000):
        path = put(home / ".config/google-chrome/Default/Preferences", data)
        assert await get(work, "profile_name") is None
        assert await get(work, "default_search_engine") == "Google"
        path.unlink()


@pytest.mark.parametrize(
    ("kind", "found", "without"),
    [
        ("default_search_engine", "DuckDuckGo", "Google"),
        ("enable_do_not_track", "true", "false"),
        ("find_unpacked_extension_path", ["/opt/ext"], []),
        ("find_installed_extension_name", ["Ext"], []),
        ("profile_name", "Ada", None),
        ("data_delete_automacally", "true", "false"),
        ("enable_safe_browsing", "true", "false"),
        ("enable_enhanced_safety_browsing", "true", "false"),
        ("new_startup_page", "false", "true"),
        ("chrome_font_size", {"default_font_size": 20}, FONTS),
        ("bookmarks", {"bookmark_bar": {"children": []}}, None),
        ("enabled_experiments", ["a@1"], []),
        ("chrome_language", "xx", "en-US"),
    ],
)
@pytest.mark.parametrize("browser", ["google-chrome", "chromium"])
async def test_settings_of_chrome(
    work: Workspace, home: Path, kind: str, found: object, without: object, browser: str
) -> None:
    folder = home / ".config" / browser
    names = ("Default/Preferences", "Default/Bookmarks", "Local State")
    state = {"browser": {"enabled_labs_experiments": ["a@1"]}, "intl": {"app_locale": "xx"}}
    bookmarks = {"roots": {"bookmark_bar": {"children": []}}}
    try:
        assert await get(work, kind) == without
        for name, document in zip(names, (PREFERENCES, bookmarks, state), strict=True):
            put(folder / name, json.dumps(document))
        assert await get(work, kind) == found
        for data in ("", "{", "[]", "7", '{"profile": 7, "session": [], "roots": []}', "[" * 50_000):
            for name in names:
                put(folder / name, data)
            fresh = '"session"' not in data  # with a session of no known kind Chrome does not start afresh
            assert await get(work, kind) == (without if fresh or kind != "new_startup_page" else "false")
    finally:
        for name in names:
            (folder / name).unlink(missing_ok=True)


def database(path: Path, *statements: str) -> bytes:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path.read_bytes()


URLS = "CREATE TABLE urls (url, title, last_visit_time)"


async def test_history(work: Workspace, home: Path, tmp_path: Path) -> None:
    place = home / ".config/google-chrome/Default/History"
    assert await get(work, "history", dest="history.sqlite") is None
    visited = "INSERT INTO urls VALUES ('https://a.example/', 'A', 13350000000000000)"
    put(place, database(tmp_path / "h", URLS, visited))
    assert await get(work, "history", dest="history.sqlite") == [
        ("https://a.example/", "A", 13350000000000000)
    ]
    for data in (b"", b"SQLite format 3\0 no", database(tmp_path / "other", "CREATE TABLE x (y)")):
        put(place, data)
        assert await get(work, "history", dest="history.sqlite") is None
    place.unlink()


async def test_cookies_where_old_and_new_chromes_keep_them(
    work: Workspace, home: Path, tmp_path: Path
) -> None:
    assert await get(work, "cookie_data", dest="Cookies") is None
    rows = database(
        tmp_path / "c", "CREATE TABLE cookies (host)", "INSERT INTO cookies VALUES ('.a.example')"
    )
    for place in ("Default/Network/Cookies", "Default/Cookies"):
        path = put(home / ".config/google-chrome" / place, rows)
        assert await get(work, "cookie_data", dest="Cookies") == [(".a.example",)]
        path.unlink()


def test_a_database_that_keeps_the_reader_busy_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, x, x FROM n WHERE x < 0"
    )
    columns = "CREATE VIEW urls (url, title, last_visit_time) AS " + endless
    database(tmp_path / "busy", columns)
    monkeypatch.setattr(profile, "_MAX_STEPS", 1000)
    assert profile.select(tmp_path / "busy", "SELECT url, title, last_visit_time FROM urls") is None
    assert not list(tmp_path.glob("busy-*")), "nothing is written beside it"


# -- Chrome's tabs -------------------------------------------------------------------------------------------


def tree_with(application: str, *addresses: str) -> str:
    bars = "".join(f'<entry name="Address and search bar">{text}</entry>' for text in addresses)
    return f'<desktop-frame><application name="{application}">{bars}</application></desktop-frame>'


def test_the_address_bar_of_a_tree() -> None:
    assert tabs.address_shown(tree_with("Google Chrome", "drugs.com/npc/")) == "drugs.com/npc/"
    assert tabs.address_shown(tree_with("Chromium", "a.example")) == "a.example"
    for tree in (
        tree_with("Firefox", "a.example"),
        tree_with("Chromium"),
        tree_with("Chromium", ""),
        "<a",
        "",
    ):
        assert tabs.address_shown(tree) is None


async def shown(tmp_path: Path, address: str, kind: str, **config: Any) -> Any:
    answer = http(json.dumps({"AT": tree_with("Google Chrome", address)}).encode())
    return await get(workspace(Canned(answer), tmp_path), kind, **config)


async def test_what_an_address_says(tmp_path: Path) -> None:
    assert await shown(tmp_path, "a.example/x", "active_url_from_accessTree") == "https://a.example/x"
    prefixed = await shown(tmp_path, "a.example", "active_url_from_accessTree", goto_prefix="https://www.")
    assert prefixed == "https://www.a.example"
    query = {"parse_keys": ["q", "n", "none"], "goto_prefix": "https://"}
    asked = await shown(tmp_path, "a.example/?q=x%20y&amp;n=1,2", "active_tab_url_parse", **query)
    assert asked == {"q": "x y", "n": "1,2", "none": ""}
    split = {**query, "split_list": "true", "replace": {"n": "numbers", "gone": "x"}}
    asked = await shown(tmp_path, "a.example/?q=x&amp;n=1,2", "active_tab_url_parse", **split)
    assert asked == {"q": ["x"], "numbers": ["1", "2"], "none": [""]}
    part = {"partIndex": -2, "needDeleteId": False, "returnType": "json", "key": "time"}
    assert await shown(tmp_path, "a.example/may-weather/1", "url_dashPart", **part) == {"time": "may-weather"}
    text = {"partIndex": "3", "needDeleteId": True, "returnType": "string"}
    assert await shown(tmp_path, "a.example/one?id=7", "url_dashPart", **text) == "one"
    assert await shown(tmp_path, "a.example", "url_dashPart", **{**text, "partIndex": 9}) is None


@pytest.mark.parametrize("typed", ["[", "[x/", "a.example/?" + "q=1&amp;" * 1001])
async def test_what_is_no_address_says_nothing(tmp_path: Path, typed: str) -> None:
    assert await shown(tmp_path, typed, "active_tab_url_parse", parse_keys=["q"]) is None
    filters = await shown(tmp_path, typed, "url_path_parse", parse_keys=["shirts"])
    assert (filters is None) == typed.startswith("[")


async def test_without_a_browser_there_is_no_address(work: Workspace, tmp_path: Path) -> None:
    none = workspace(Canned(http(b'{"AT": "<a/>"}')), tmp_path)
    for kind, config in (
        ("active_url_from_accessTree", {}),
        ("active_tab_url_parse", {"parse_keys": ["q"]}),
        ("url_dashPart", {"partIndex": 0, "returnType": "string"}),
        ("url_path_parse", {"parse_keys": []}),
        ("active_tab_info", {}),
        ("active_tab_html_parse", {"category": "xpath", "xpathObject": {"//a": "a"}}),
    ):
        assert await get(none, kind, **config) is None


def test_filters_in_a_shops_address() -> None:
    keys = ["mens_clothing", "shirts", "Men_regular_size_t", "Price_discount_range", "short_sleeve"]
    path = "/shop/mens-clothing/shirts/Sleeve_length,Men_regular_size_t,Price_discount_range/"
    chosen = path + "Short%20Sleeve,L,50_PERCENT_%20off%20%26%20more"
    assert tabs.filters_of(f"https://www.macys.com{chosen}?id=1", keys) == {
        "mens_clothing": True,
        "shirts": True,
        "short_sleeve": True,
        "Men_regular_size_t": "L",
        "Price_discount_range": "50_PERCENT_ off & more",
    }
    less = chosen + "|20_PERCENT_%20off%20%26%20more"
    found = tabs.filters_of(less, keys)
    assert found is not None and found["Price_discount_range"] == "not_50_PERCENT_ off & more"
    bare = tabs.filters_of("https://www.macys.com/", keys)
    assert bare is not None
    assert bare["Men_regular_size_t"] is None and bare["mens_clothing"] is None


@pytest.mark.parametrize("said", ["", "{}x", '{"tabs": 7}', '{"error": "no"}', '{"x": ' + "[" * 100_000])
async def test_a_browser_that_makes_no_sense_is_none(tmp_path: Path, said: str) -> None:
    body = json.dumps({"output": said, "error": "", "returncode": 0}).encode()
    with pytest.raises(devtools.NoBrowser):
        await devtools.tabs(Guest(Canned(http(body))))


async def test_the_active_tab_is_the_one_with_the_keyboard() -> None:
    found = [
        {"id": "1", "title": "a", "url": "https://a.example", "value": None},
        {"id": "2", "title": "b", "url": "https://b.example", "value": [False, True]},
        {"id": "3", "title": "c", "url": "https://c.example", "value": [True, True]},
    ]

    async def active(count: int) -> str | None:
        said = json.dumps({"tabs": found[:count]})
        body = json.dumps({"output": said, "error": "", "returncode": 0}).encode()
        tab = await devtools.active_tab(Guest(Canned(http(body))))
        return None if tab is None else tab.id

    assert [await active(count) for count in range(4)] == [None, "1", "2", "3"]


def parsed(
    texts: dict[tuple[page.Kind, str], list[str]], url: str = "https://a.example/", **config: Any
) -> Any:
    return page.named(configs.Page(**config), texts, url)


def test_texts_of_a_page_get_the_names_of_the_task() -> None:
    by_place = {"class_multiObject": {"c": {"0": "first", "5": "sixth"}}, "class_singleObject": {"s": "one"}}
    texts: dict[tuple[page.Kind, str], list[str]] = {("class", "c"): ["A", "B"], ("class", "s"): []}
    assert parsed(texts, category="class", **by_place) == {"first": "A", "sixth": "", "one": ""}
    there = {"class_multiObject_search_exist": {"c": ["A", "C", "is_other_exist"]}}
    assert parsed(texts, category="class", **there) == {"A": True, "C": False, "is_other_exist": True}
    direct = {
        "class_multiObject_child": {"c": {"1": "end"}},
        "class_multiObject_only_child": {"h": {"0": "head"}},
    }
    own: dict[tuple[page.Kind, str], list[str]] = {("direct", "c"): ["SEA", "NYC"], ("heading", "h"): ["Hi"]}
    assert parsed(own, category="class", **direct) == {"end": "NYC", "head": "Hi"}
    assert parsed({("xpath", "//a"): []}, category="xpath", xpathObject={"//a": "rank"}) == {"rank": ""}
    assert parsed({("input", "//a"): ["x"]}, category="input", inputObject={"//a": "name"}) == {"name": "x"}
    assert parsed({("label", "To"): ["To: A"]}, category="label", labelObject={"To": "to"}) == {"to": "To: A"}
    with pytest.raises(FaultError):
        parsed(texts, category="class", class_multiObject={"c": {"first": "a"}})


def test_filters_that_a_page_shows_as_chosen() -> None:
    config = {
        "category": "class&url",
        "class_multiObject": {"f": ["Red", "Blue"]},
        "url_include_expected": ["Sale"],
    }
    texts: dict[tuple[page.Kind, str], list[str]] = {("class", "f"): ["red"]}
    found = {"red": True, "is_other_exist": False, "sale": True}
    assert parsed(texts, "https://a.example/sale", **config) == found
    texts["class", "f"].append("Green")
    assert parsed(texts, **config) == {"red": True, "is_other_exist": True, "sale": False}
