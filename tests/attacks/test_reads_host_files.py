"""A page, or a browser that somebody took over, that reads files of the machine it runs on."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devices import foreign
from devices.drivers.browser.files import Home
from guiagent.errors import FaultError
from guiagent.types import ResetSpec
from tests.support.browser_pages import BLIND, running

SECRET = "vermilion-secret"
# Each loads the file FILE in one way, and resolves with what it could tell of it.
HELP = """
window.element = (tag, fields, read, place = document.body) => new Promise(done => {
  const it = Object.assign(document.createElement(tag), fields);
  it.onload = () => done(read(it));
  it.onerror = () => done(tag === 'video' && it.error.message.includes('DEMUXER') ? 'vermilion' : 'refused');
  place.append(it);
});
"""
WORKER = "try { importScripts('FILE.js'); postMessage(leaked) } catch (error) { postMessage('refused') }"
WAYS = {
    "script": "element('script', {src: 'FILE.js'}, () => window.leaked)",
    "style": """element('link', {rel: 'stylesheet', href: 'FILE.css'},
        () => getComputedStyle(document.body).getPropertyValue('--leaked'))""",
    "import": "import('FILE.js').then(() => window.leaked, () => 'refused')",
    "picture": "element('img', {src: 'FILE.svg'}, it => 'vermilion' + it.width)",
    "video": "element('video', {src: 'FILE.js'}, () => '')",
    "fetch": "fetch('FILE.js').then(it => it.text(), () => 'refused')",
    "worker": f"""new Promise(done => {{
        new Worker(URL.createObjectURL(new Blob([{WORKER!r}]))).onmessage = event => done(event.data) }})""",
    "frame": """new Promise(done => { addEventListener('message', event => done(event.data));
        element('iframe', {src: 'FILE.html'}, () => setTimeout(done, 200, 'refused')) })""",
}


@pytest.fixture
def secret() -> Iterator[Path]:
    """A file that every user of this machine may read, in the forms that a page can load."""
    stem = Path(f"/tmp/vermilion-{os.getpid()}")
    content = {
        ".js": f"self.leaked = '{SECRET}'",
        ".css": f":root {{ --leaked: {SECRET} }}",
        ".svg": '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>',
        ".html": f"<script>parent.postMessage('{SECRET}', '*')</script>",
    }
    files = [stem.with_suffix(suffix) for suffix in content]
    try:
        for file in files:
            file.write_text(content[file.suffix])
            file.chmod(0o644)
        yield stem
    finally:
        for file in files:
            file.unlink()


@pytest.mark.parametrize("mode", [{}, {"width": 1280, "height": 720}], ids=["frames", "tabs"])
async def test_no_way_of_loading_reaches_outside_an_installed_site(
    mode: dict[str, int], secret: Path
) -> None:
    async with running(**mode) as device:
        await device.reset(0, ResetSpec("miniwob:click-test"), BLIND)
        assert await device._page.run("location.protocol") == "file:"
        await device._page.run(HELP)
        told = {
            way: await device._page.run(script.replace("FILE", secret.as_uri()))
            for way, script in WAYS.items()
        }
        assert {way: text for way, text in told.items() if "vermilion" in str(text)} == {}
        shown = await device.reset(1, ResetSpec("miniwob:click-test"), BLIND)
        assert shown.action_error is None


async def test_a_browser_that_was_taken_over_lends_its_files_no_links(tmp_path: Path) -> None:
    secret, outside = tmp_path / "secret", tmp_path / "outside"
    secret.write_text(SECRET)
    outside.mkdir()
    folder = tmp_path / "files"
    folder.mkdir()
    home = Home(folder)
    (folder / "file").symlink_to(secret)
    (folder / "folder").symlink_to(outside, target_is_directory=True)
    os.mkfifo(folder / "pipe")
    for path in ("/home/user/file", "/home/user/pipe"):  # a pipe would never answer
        with pytest.raises(FaultError, match="missing_file"):
            await asyncio.wait_for(asyncio.to_thread(home.get, path), 10)
    home.put("/home/user/file", b"new")
    assert secret.read_text() == SECRET
    assert home.get("/home/user/file") == b"new"
    with pytest.raises(FaultError, match="bad_path"):
        home.put("/home/user/folder/file", b"new")
    assert not list(outside.iterdir())
    assert home.listing() == {"file": 3}
    home.clear()
    assert outside.is_dir()
    assert secret.read_text() == SECRET


def test_a_saved_profile_holds_no_links_and_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    profile = tmp_path / "profile"
    (profile / "Default").mkdir(parents=True)
    (profile / "Default" / "Cookies").write_bytes(b"cookies")
    (profile / "Default" / "link").symlink_to(tmp_path / "secret")
    (profile / "linked").symlink_to(tmp_path, target_is_directory=True)
    foreign.copy(profile, tmp_path / "saved", 100)
    assert foreign.sizes(tmp_path / "saved") == {"Default/Cookies": 7}
    with pytest.raises(OSError, match="more than 5 bytes"):
        foreign.copy(profile, tmp_path / "other", 5)
    profile.rename(tmp_path / "elsewhere")
    profile.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    foreign.copy(profile, tmp_path / "none", 100)
    assert foreign.sizes(tmp_path / "none") == {}
