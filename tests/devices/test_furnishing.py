"""What makes a desktop look like OSWorld's: shims, home folders, a session bus at its place, Ctrl+Alt+T."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devices import furnishing
from devices.drivers import desktop
from guiagent.actions import KeyChord
from guiagent.types import ObserveSpec
from tests.support.desktops import act, running, shell


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[desktop.DesktopDevice]:
    async with running() as started:
        yield started


def test_openbox_keeps_its_settings_and_gets_a_terminal_key(tmp_path: Path) -> None:
    settings = tmp_path / "etc/xdg/openbox/rc.xml"
    settings.parent.mkdir(parents=True)
    settings.write_text("<keyboard><keybind key='A-F4'/></keyboard><mouse/>")
    made = furnishing.system_files(tmp_path)["etc/xdg/openbox/rc.xml"]
    assert made.startswith("<keyboard><keybind key='A-F4'/>") and made.endswith("</keyboard><mouse/>")
    assert 'key="C-A-t"' in made
    assert "etc/xdg/openbox/rc.xml" not in furnishing.system_files(tmp_path / "no system")


def test_pkill_of_chrome_means_chromium(tmp_path: Path) -> None:
    """The shim hands its words on, with Chrome's name widened; the real pkill is not asked."""
    script = (furnishing.BIN / "pkill").read_text().replace("exec /usr/bin/pkill", "printf '%s\\n'")
    for given, handed in ((["-9", "chrome"], ["-9", "chrom(e|ium)"]), (["-f", "vlc x"], ["-f", "vlc x"])):
        done = subprocess.run(["sh", "-c", script, "pkill", *given], capture_output=True, text=True)
        assert done.stdout.splitlines() == handed


@pytest.mark.parametrize("program", ["apt", "apt-get"])
def test_apt_counts_what_is_installed_and_fails_for_what_is_not(program: str) -> None:
    def ends(*words: str) -> tuple[int, str]:
        done = subprocess.run([furnishing.BIN / program, *words], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert ends("update", "-y") == ends("install", "dpkg", "-y") == (0, "")
    code, said = ends("-y", "install", "dpkg", "no-such-package")
    assert code == 100 and said == "E: no-such-package is not installed, and nothing can be installed here\n"
    assert ends("--version")[0] == 0  # other verbs are the real program's


@pytest.mark.asyncio(loop_scope="module")
async def test_a_desktop_has_what_the_tasks_look_for(device: desktop.DesktopDevice) -> None:
    assert set(furnishing.FOLDERS) <= set((await shell(device, "ls ~")).split())
    bus = "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus"
    names = f"{bus} gdbus call --session -d org.freedesktop.DBus -o / -m org.freedesktop.DBus.ListNames"
    assert "org.freedesktop.DBus" in await shell(device, names)
    assert (
        await shell(device, "echo password | sudo -S -u root -- sh -c 'id -un; echo $1' sh x")
    ).split() == [*("user", "x")]
    assert (await shell(device, "sudo A=b printenv A")).strip() == "b"
    assert "chromium" in await shell(device, "cat $(which google-chrome)")
    assert (await shell(device, "cat ~/.config/google-chrome/Default/Preferences")).strip() == "{}"


@pytest.mark.asyncio(loop_scope="module")
async def test_ctrl_alt_t_opens_a_terminal(device: desktop.DesktopDevice) -> None:
    await act(device, KeyChord(keys=("Control", "Alt", "t")))
    waiting = "for i in $(seq 90); do wmctrl -lx | grep -i term && break; sleep 0.1; done"
    assert "term" in (await shell(device, waiting)).lower()
    assert (await device.observe(ObserveSpec(frame="none"))).action_error is None


def test_shims_can_be_run() -> None:
    assert all(os.access(path, os.X_OK) for path in furnishing.BIN.iterdir())
