"""The android driver through a real adb server: virtual phones, and one that claims to be any Android."""

import asyncio
import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from PIL import Image

from devices.adb import wire
from devices.config import AndroidConfig, PhoneConfig
from devices.drivers import DRIVERS, android, phone
from devices.drivers.android import emulator, plain
from devices.drivers.android.adb import SERVER
from devices.drivers.android.device import AndroidDevice
from devices.drivers.phone import last_words
from guiagent import protocols
from guiagent.actions import (
    Action,
    Click,
    Open,
    Pinch,
    PressButton,
    Shell,
    Type,
    Wait,
)
from guiagent.errors import FaultError, InfrastructureError, MissingProgram, UsageError
from guiagent.types import Node, ObserveSpec, ResetSpec
from tests.support import android_sdk

WIDTH, HEIGHT = 360, 640
BLANK = ObserveSpec(frame="none")
PNG = ObserveSpec(frame="png")
TREE = ObserveSpec(frame="none", tree=True)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def started() -> AndroidDevice:
    try:
        return await phone.start(PhoneConfig(width=WIDTH, height=HEIGHT))
    except MissingProgram as missing:
        pytest.skip(str(missing))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[AndroidDevice]:
    device = await started()
    yield device
    await device.close()


@pytest_asyncio.fixture(loop_scope="module")
async def device(shared: AndroidDevice) -> AndroidDevice:
    await shared.reset(0, ResetSpec(), BLANK)
    return shared


async def names(device: protocols.Device) -> dict[str, Node]:
    return {node.name: node for node in (await device.observe(TREE)).tree or []}


async def tap(device: protocols.Device, name: str) -> None:
    x, y, width, height = (await names(device))[name].box
    observation = await device.act([Click(x=x + width // 2, y=y + height // 2)], BLANK)
    assert observation.action_error is None


# -- the virtual phone as a device -----------------------------------------------------------------------


async def test_a_phone_keeps_the_contracts(device: AndroidDevice) -> None:
    for contract in (
        protocols.Device,
        protocols.Shell,
        protocols.Files,
        protocols.Snapshots,
        protocols.Services,
    ):
        assert isinstance(device, contract)
    facts = await device.describe()
    assert (facts.kind, facts.width, facts.height) == ("phone", WIDTH, HEIGHT)
    assert {"shell", "files", "a11y", "adb", "touch", "snapshot", "state"} <= set(facts.features)
    assert "Android" not in facts.software
    assert {"phone", "android"} <= DRIVERS.keys()
    assert (await device.health()).ok


async def test_frames_are_pictures_and_an_unchanged_one_travels_as_its_hash(device: AndroidDevice) -> None:
    first = await device.observe(PNG)
    with Image.open(io.BytesIO(first.frame)) as picture:
        assert picture.size == (WIDTH, HEIGHT)
    again = await device.observe(ObserveSpec(frame="png", have=first.hash))
    assert (again.unchanged, again.frame, again.hash) == (True, b"", first.hash)
    jpeg = await device.act([Open(target="Settings")], ObserveSpec(frame="jpeg", quality=70))
    assert jpeg.frame.startswith(b"\xff\xd8")


async def test_apps_are_opened_typed_into_and_left(device: AndroidDevice) -> None:
    home = await device.observe(PNG)
    opened = await device.act([Open(target="Settings")], PNG)
    assert opened.action_error is None
    assert opened.hash != home.hash
    assert (await device.act([PressButton(button="home")], PNG)).hash == home.hash
    assert (await device.act([Open(target="com.android.settings")], PNG)).hash == opened.hash
    back = await device.act([PressButton(button="back"), Wait(ms=1)], PNG)
    assert back.hash == home.hash


async def test_what_the_agent_got_wrong_is_its_own_error(device: AndroidDevice) -> None:
    before = await device.observe(PNG)
    for wrong, said in (
        ([Open(target="No Such App")], "no app named"),
        ([Open(target="file:///etc/passwd")], "refused"),
        ([Pinch(x=5, y=5, scale=2.0)], "pinch"),
        ([Open(target="https://example.com")], ""),
    ):
        observation = await device.act(wrong, PNG)
        assert observation.action_error is not None and said in observation.action_error
        assert observation.hash == before.hash
    # What came before the wrong one was done, what comes after was not.
    mixed: Sequence[Action] = [
        Open(target="Settings"),
        Pinch(x=5, y=5, scale=2.0),
        PressButton(button="home"),
    ]
    observation = await device.act(mixed, PNG)
    assert "pinch" in str(observation.action_error)
    assert observation.hash != before.hash
    with pytest.raises(UsageError):
        await device.observe(ObserveSpec(probes={"a": "1"}))


async def test_commands_and_files_on_the_phone(device: AndroidDevice) -> None:
    assert (await device.exec(["echo", "a b", "$HOME", ";reboot"], 5)).stdout == "a b $HOME ;reboot\n"
    failed = await device.exec(["ls", "/nowhere"], 5)
    assert (failed.code, failed.stdout, failed.stderr) == (1, "", "ls: /nowhere: No such file or directory\n")
    data = os.urandom(1_000_000)
    await device.put("/sdcard/Download/a b.bin", data)
    assert await device.get("/sdcard/Download/a b.bin") == data
    for wrong in ("/sdcard/none", "/sdcard/../../etc/passwd"):
        with pytest.raises(FaultError) as missing:
            await device.get(wrong)
        assert missing.value.fault.origin == "task"
    with pytest.raises(FaultError) as refused:
        await device.put("/system/x", b"")
    assert refused.value.fault.origin == "task"
    with pytest.raises(UsageError):
        await device.get("relative")
    observed = await device.act([Shell(command="echo told; echo why >&2")], BLANK)
    assert observed.output == "told\nwhy\n"


async def test_a_reset_leaves_nothing_and_the_same_seed_makes_the_same_phone(device: AndroidDevice) -> None:
    clean, shown = await device.attest(), (await device.observe(PNG)).hash
    await device.put("/sdcard/left.txt", b"x")
    await device.put("/data/local/tmp/left.txt", b"x")
    await device.exec(["settings", "put", "global", "left", "1"], 5)
    await device.act([Open(target="Settings")], BLANK)
    assert await device.attest() != clean
    assert (await device.reset(0, ResetSpec(), PNG)).hash == shown
    assert await device.attest() == clean
    await device.reset(5, ResetSpec(), BLANK)
    assert await device.attest() != clean


async def test_siblings_fork_a_snapshot_and_state_is_laid_over_the_start(
    device: AndroidDevice,
) -> None:
    sibling = await started()
    try:
        await device.exec(["settings", "put", "system", "kept", "yes"], 5)
        await device.put("/sdcard/kept.txt", b"kept")
        name, shown = await device.snapshot(), (await device.observe(PNG)).hash
        for each in (sibling, device):
            assert (await each.reset(1, ResetSpec(snapshot=name), PNG)).hash == shown
            assert await each.get("/sdcard/kept.txt") == b"kept"
        assert await device.attest() == await sibling.attest()
        await sibling.reset(0, ResetSpec(state={"settings": {"system": {"laid": "over"}}}), BLANK)
        assert (await sibling.exec(["settings", "get", "system", "laid"], 5)).stdout == "over\n"
        assert (await sibling.exec(["settings", "get", "system", "kept"], 5)).stdout == "null\n"
        with pytest.raises(UsageError, match="no snapshot"):
            await device.reset(0, ResetSpec(snapshot="none"), BLANK)
    finally:
        await sibling.close()


async def test_a_holder_reaches_the_phone_with_adb_through_a_tunnel(
    device: AndroidDevice, tmp_path: Path
) -> None:
    """The holder's adb has a key that this phone never saw."""

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await device.connect("adb")
        await asyncio.gather(copy(reader, inner[1]), copy(inner[0], writer), return_exceptions=True)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    serial = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "ADB_SERVER_SOCKET": f"localfilesystem:{tmp_path}/adb",
    }

    async def adb(*words: str) -> str:
        client = await asyncio.create_subprocess_exec("adb", *words, env=environment, stdout=-1, stderr=-3)
        return (await client.communicate())[0].decode()

    try:
        assert "connected to" in await adb("connect", serial)  # starts the holder's server, too
        assert await adb("-s", serial, "shell", "getprop", "ro.guiagent.virtual") == "1\n"
    finally:
        await adb("kill-server")
        server.close()
    with pytest.raises(UsageError):
        await device.connect("cdp")


# -- faults ----------------------------------------------------------------------------------------------


def browser_of(device: AndroidDevice) -> psutil.Process:
    backend = psutil.Process(device._backend.pid)  # type: ignore[attr-defined]
    for one in backend.children(recursive=True):
        words = one.cmdline()
        script = words[:1] == ["/bin/sh"]  # Debian's, which waits for the browser
        if "--remote-debugging-pipe" in words and "--type=" not in " ".join(words) and not script:
            return one
    raise AssertionError("the phone has no browser")


@pytest.mark.parametrize("victim", ["phone", "browser"])
async def test_a_killed_phone_or_browser_is_a_typed_fault_and_leaves_nothing(
    device: AndroidDevice, victim: str
) -> None:
    doomed = await started()
    backend = doomed._backend
    pid = backend.pid  # type: ignore[attr-defined]
    browser = browser_of(doomed)
    try:
        os.kill(pid if victim == "phone" else browser.pid, signal.SIGKILL)
        with pytest.raises(FaultError) as died:
            for _ in range(20):
                await doomed.act([Click(x=5, y=5)], PNG)
        assert died.value.fault.origin == "device"
        assert not (await doomed.health()).ok
    finally:
        await doomed.close()
    assert not psutil.pid_exists(pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        browser.wait(5)
    assert not backend._folder.exists()  # type: ignore[attr-defined]
    assert (await device.health()).ok  # its neighbour


def dying_browser(folder: Path) -> Path:
    browser = folder / "headless_shell"
    browser.write_text("#!/bin/sh\nkill -9 $$\n")
    browser.chmod(0o755)
    folder.chmod(0o755)  # for a device's own user
    return browser


async def test_a_browser_that_dies_at_the_start_is_a_fault_after_which_the_pool_tries_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GUIAGENT_CHROMIUM", str(dying_browser(tmp_path)))
    with pytest.raises(FaultError, match=r"the browser process ended \(signal 9\)") as caught:
        await phone.start(PhoneConfig(width=WIDTH, height=HEIGHT))
    assert (caught.value.fault.code, caught.value.fault.retryable) == ("start_failed", True)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", ""),
        ("Traceback (most recent call last):\nValueError: seven\n", "ValueError: seven"),
        (
            "phone: the browser process ended (signal 9)\nFuture exception was never retrieved\n"
            "BrokenPipeError: [Errno 32] Broken pipe\n",
            "the browser process ended (signal 9)",
        ),
    ],
)
async def test_what_a_phone_says_last_is_why_it_ended(log: str, said: str) -> None:
    assert last_words(log) == said


async def test_an_adb_server_that_dies_mid_step_leaves_an_unknown_outcome_and_no_second_tap(
    device: AndroidDevice,
) -> None:
    step = asyncio.create_task(device.act([Shell(command="settings put system once 1; sleep 20")], BLANK))
    await asyncio.sleep(0.5)
    assert SERVER.pid is not None
    os.kill(SERVER.pid, signal.SIGKILL)
    with pytest.raises(FaultError) as lost:
        await step
    assert (lost.value.fault.code, lost.value.fault.retryable) == ("unknown_outcome", False)
    assert (await device.exec(["settings", "get", "system", "once"], 10)).stdout == "1\n"  # connected anew
    log = (await device.exec(["logcat", "-d", "-s", "SettingsProvider"], 5)).stdout
    assert log.count("put system once") == 1


async def test_no_port_is_open_but_the_phones_own_on_loopback(device: AndroidDevice) -> None:
    assert SERVER.pid is not None
    assert not [one for one in psutil.Process(SERVER.pid).net_connections() if one.status == "LISTEN"]
    backend = psutil.Process(device._backend.pid)  # type: ignore[attr-defined]
    listening = {
        one.laddr.ip
        for process in [backend, *backend.children(recursive=True)]
        for one in process.net_connections()
        if one.status == "LISTEN"
    }
    assert listening == {"127.0.0.1"}


async def test_what_a_killed_owner_leaves_is_swept() -> None:
    program = (
        "import asyncio, os\nfrom devices.config import PhoneConfig\nfrom devices.drivers import phone\n"
        "async def main():\n    device = await phone.start(PhoneConfig(width=360, height=640))\n"
        "    print(device._backend.pid, flush=True)\n    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=-1)
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    children = psutil.Process(owner.pid).children(recursive=True)
    assert len(children) > 2
    owner.kill()
    await owner.wait()
    for _ in range(100):
        phone.sweep()
        if not any(child.is_running() and child.status() != "zombie" for child in children):
            break
        await asyncio.sleep(0.05)
    assert not any(child.is_running() and child.status() != "zombie" for child in children)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"
    left = [name for name in os.listdir(tempfile.gettempdir()) if f"-{owner.pid}-" in name]
    assert not [name for name in left if name.startswith(("guiagent-phone", "guiagent-adb"))]


# -- any other Android -----------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AndroidDevice]:
    """An emulator of an AVD, from an SDK whose emulator is a stand-in."""
    if shutil.which("adb") is None:
        pytest.skip("no adb: apt-get install adb")
    variables = android_sdk.install(tmp_path_factory.mktemp("sdk"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        device = await android.start(AndroidConfig(avd="Tiny", unlimited_egress=True))
        yield device
        backend = device._backend
        await device.close()
    assert not psutil.pid_exists(backend.pid)  # type: ignore[attr-defined]
    assert not backend._folder.exists()  # type: ignore[attr-defined]


async def test_an_emulator_is_driven_as_android(emulated: AndroidDevice) -> None:
    facts = await emulated.describe()
    assert (facts.kind, facts.width, facts.height) == ("android", 360, 640)
    assert facts.software.startswith("Android 14 on ")
    home = await emulated.reset(0, ResetSpec(), PNG)
    with Image.open(io.BytesIO(home.frame)) as picture:
        assert (picture.size, picture.mode) == ((360, 640), "RGB")
    observed = await emulated.observe(TREE)  # after uiautomator failed once
    assert observed.tree
    assert (await emulated.act([Open(target="settings")], PNG)).hash != home.hash
    refused = await emulated.act([Type(text="ä")], BLANK)
    assert "ADBKeyboard" in str(refused.action_error)


async def test_an_emulators_snapshots_come_back_and_its_reset_is_attested(emulated: AndroidDevice) -> None:
    await emulated.reset(0, ResetSpec(), BLANK)
    clean = await emulated.attest()
    await emulated.put("/sdcard/kept.txt", b"kept")
    name = await emulated.snapshot()
    await emulated.put("/sdcard/lost.txt", b"lost")
    assert await emulated.attest() != clean
    await emulated.reset(0, ResetSpec(snapshot=name), BLANK)
    assert await emulated.get("/sdcard/kept.txt") == b"kept"
    with pytest.raises(FaultError):
        await emulated.get("/sdcard/lost.txt")
    await emulated.reset(0, ResetSpec(), BLANK)
    assert await emulated.attest() == clean
    with pytest.raises(UsageError):
        await emulated.reset(0, ResetSpec(snapshot="unknown"), BLANK)


async def test_only_a_lease_leads_to_an_emulators_adbd(emulated: AndroidDevice) -> None:
    """It trusts its host's key: who comes through the driver is let in by that, and nobody else is."""
    hello = wire.encode(wire.CNXN, wire.VERSION, wire.MAX_PAYLOAD, b"host::\0")
    outside = await plain.dial(emulated.address)
    for (reader, writer), command in ((await emulated.connect("adb"), wire.CNXN), (outside, wire.AUTH)):
        writer.write(hello)
        async with asyncio.timeout(30):
            head = await reader.readexactly(wire.HEADER_SIZE)
        assert wire.parse_header(head, wire.MAX_PAYLOAD).command == command
        writer.close()


async def test_a_phone_by_its_serial_is_left_as_it_was_found(emulated: AndroidDevice) -> None:
    device = await android.start(AndroidConfig(serial=emulated.serial, unlimited_egress=True))
    try:
        assert "snapshot" not in (await device.describe()).features
        before = await device.attest()
        await device.put("/sdcard/Download/mine.txt", b"x")
        await device.reset(0, ResetSpec(), BLANK)
        assert await device.get("/sdcard/Download/mine.txt") == b"x"
        assert await device.attest() != before
        with pytest.raises(UsageError):
            await device.snapshot()
    finally:
        await device.close()
    await emulated.reset(0, ResetSpec(), BLANK)


async def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANDROID_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    if shutil.which("emulator") is None:
        with pytest.raises(InfrastructureError, match="ANDROID_HOME"):
            emulator.find()
    with pytest.raises(InfrastructureError, match="no AVD 'Nope'"):
        emulator.avd_folder("Nope")
    with pytest.raises(FaultError) as unreachable:
        await android.start(AndroidConfig(serial="127.0.0.1:1", unlimited_egress=True))
    assert (unreachable.value.fault.code, unreachable.value.fault.retryable) == ("unreachable", True)
