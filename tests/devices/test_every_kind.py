"""Every kind of device: the documented command brings it up behind a pool, whose wire carries every verb.

What a kind lacks is refused in one clear line. The pool is a process of its own with its own event loop, as a
user's is, and its log is read at the end: nothing that happened in it may have been unexpected.
"""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image

from guiagent.actions import Action, Click, Drag, Move, Open, Scroll, Type, Wait
from guiagent.client import FarmClient, LeasedDevice
from guiagent.client.local_pool import read_endpoint
from guiagent.errors import FaultError, LeaseError, MissingProgram, UsageError
from guiagent.types import Observation, ObserveSpec, ResetSpec
from guiagent.wire import SERVICES, Endpoint, Grant
from tests.support import android_sdk, guest_session

PNG = ObserveSpec(frame="png")
NOTHING = ObserveSpec(frame="none")
UP_S = 900.0  # a VM boots its image first, emulated and beside other work
PATIENCE_S = 120.0  # reached only where a test fails
LINUX = "/home/user/kept.txt"
ANDROID = "/sdcard/Download/kept.txt"


@dataclass(frozen=True)
class Kind:
    """How one kind comes up, and what the docs promise of it.

    Attributes:
        words: of `guiagent up`.
        toml: of its config file, where it needs one.
        variables: of its environment.
        leased: what leases ask for.
        features: promised by the docs; "fork" means that siblings take over its snapshots.
        visible: something that can be done to it and seen.
        file: where it keeps one.
        wiped: whether a reset takes back what a holder did.
    """

    leased: str
    features: frozenset[str]
    visible: Action
    file: str
    words: tuple[str, ...] = ()
    toml: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    wiped: bool = True

    @property
    def grants(self) -> list[Grant]:
        """All that a lease of it can have."""
        return [grant for grant in get_args(Grant) if grant in self.features]


BROWSER = frozenset({"exec", "a11y", "page", "files", "profile"})
DESKTOP = frozenset({"a11y", "shell", "files", "osworld"})
PHONE = frozenset({"a11y", "shell", "files", "adb", "touch", "snapshot", "fork", "state"})
PAGE = Open(target="data:text/html,<body style='background:teal'>seen")
PHONES = Kind("phone", PHONE, Open(target="Settings"), ANDROID, words=("phone=2",))
Making = contextlib.AbstractContextManager[Kind]


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Kind]:
    yield Kind("browser", BROWSER, PAGE, LINUX, words=("browser=1",))


@contextlib.contextmanager
def full_chromium(folder: Path) -> Iterator[Kind]:
    toml = '[[devices]]\nkind = "browser"\nexecutable = "chromium"\ncdp = true\n'
    yield Kind("browser", BROWSER | {"cdp"}, PAGE, LINUX, toml=toml)


@contextlib.contextmanager
def desktop(folder: Path) -> Iterator[Kind]:
    yield Kind("desktop", DESKTOP, Open(target="xterm"), LINUX, words=("desktop=1",))


@contextlib.contextmanager
def vm(folder: Path) -> Iterator[Kind]:
    features = DESKTOP | {"snapshot", "fork"}
    yield Kind("vm", features, Open(target="xterm"), LINUX, words=("vm=2",))


@contextlib.contextmanager
def phone(folder: Path) -> Iterator[Kind]:
    yield PHONES


@contextlib.contextmanager
def sim(folder: Path) -> Iterator[Kind]:
    features = BROWSER - {"profile"} | {"shell", "snapshot", "fork", "state", "touch"}
    yield Kind("sim", features, Type(text="seen"), LINUX, words=("sim=2",))


@contextlib.contextmanager
def android(folder: Path) -> Iterator[Kind]:
    """The stand-in for the SDK's emulator; each emulator keeps its snapshots to itself."""
    variables, features = android_sdk.install(folder), PHONE - {"state", "fork"} | {"unlimited_egress"}
    words = ("android:avd=Tiny=2,unlimited_egress",)
    yield Kind("android", features, Open(target="Settings"), ANDROID, words=words, variables=variables)


@contextlib.contextmanager
def remote_pool(folder: Path) -> Iterator[Kind]:
    """Phones of another pool, offered on."""
    with pool(PHONES, folder) as far:
        toml = f'[[devices]]\nkind = "remote"\nurl = "{far.url}"\ntoken = "{far.token}"\n'
        toml += 'of = "phone"\ncount = 2\n'
        yield Kind("phone", PHONE, PHONES.visible, ANDROID, toml=toml)


@contextlib.contextmanager
def remote_osworld(folder: Path) -> Iterator[Kind]:
    """A desktop behind OSWorld's guest server."""
    with guest_session.session(folder) as session, session.client() as client:
        url = str(client.base_url).replace("http://", "osworld://").rstrip("/")
        toml = f'[[devices]]\nkind = "remote"\nurl = "{url}"\nof = "desktop"\nunlimited_egress = true\n'
        menu = Click(x=400, y=300, button="right")  # of the window manager
        features = DESKTOP | {"unlimited_egress"}
        yield Kind("desktop", features, menu, str(folder / "kept.txt"), toml=toml, wiped=False)


KINDS: dict[str, Callable[[Path], Making]] = {
    "browser": browser,
    "full_chromium": full_chromium,
    "desktop": desktop,
    "vm": vm,
    "phone": phone,
    "sim": sim,
    "android": android,
    "remote_pool": remote_pool,
    "remote_osworld": remote_osworld,
}
MARKED = [pytest.param(name, marks=pytest.mark.vm) if name == "vm" else name for name in KINDS]


@contextlib.contextmanager
def pool(kind: Kind, folder: Path) -> Iterator[Endpoint]:
    """`guiagent up` with its state in that folder; its end and its log are checked on leaving."""
    folder.mkdir(exist_ok=True)
    words = ["guiagent.cli", "up", *kind.words, "--port", "0", "--state-dir", str(folder / "state")]
    if kind.toml:
        (folder / "farm.toml").write_text(kind.toml)
        words += ["--config", str(folder / "farm.toml")]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GUIAGENT_")}
    said = folder / "log"
    with said.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=log, stderr=log, env={**ours, **kind.variables}
        )
    try:
        until = time.monotonic() + UP_S
        while (endpoint := read_endpoint(folder / "state")) is None:
            if process.poll() == MissingProgram.exit_code:
                pytest.skip(said.read_text().strip().removeprefix("guiagent: "))
            assert process.poll() is None and time.monotonic() < until, said.read_text()
            time.sleep(0.05)
        yield endpoint
    finally:
        process.send_signal(signal.SIGTERM)
        ended = process.wait(PATIENCE_S)
    assert ended == 0, said.read_text()
    assert "Traceback" not in said.read_text(), said.read_text()


@dataclass(frozen=True)
class Farm:
    kind: Kind
    endpoint: Endpoint


@pytest.fixture(params=MARKED, scope="module")
def farm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder = tmp_path_factory.mktemp(request.param)
    made = folder / "of-the-kind"
    made.mkdir()
    with KINDS[request.param](made) as kind, pool(kind, folder / "pool") as endpoint:
        yield Farm(kind, endpoint)


@pytest.fixture
async def client(farm: Farm) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, farm.endpoint.token) as client:
        yield client


@pytest.fixture
async def device(farm: Farm, client: FarmClient) -> LeasedDevice:
    """Leased with every grant, and reset; it is given back with its client."""
    leased = await client.lease(farm.kind.leased, grants=farm.kind.grants, wait=PATIENCE_S)
    described = await leased.describe()
    if "NOT ISOLATED" in described.software:
        pytest.skip(described.software)
    leased.deadline_s = PATIENCE_S
    await leased.reset(0, ResetSpec(), NOTHING)
    return leased


def size_of(observation: Observation) -> tuple[int, int]:
    with Image.open(io.BytesIO(observation.frame)) as picture:
        picture.load()
        return picture.size


async def changed(device: LeasedDevice, before: Observation) -> Observation:
    """The first frame that is another than `before`."""
    async with asyncio.timeout(PATIENCE_S):
        while (seen := await device.observe(PNG)).hash == before.hash:
            await device.act([Wait(ms=100)], NOTHING)
    return seen


def test_the_pools_event_loop_is_the_one_users_have(farm: Farm) -> None:
    assert "/uvloop/" in Path(f"/proc/{farm.endpoint.pid}/maps").read_text()


async def test_it_is_what_the_docs_say(farm: Farm, device: LeasedDevice) -> None:
    assert (await device.describe()).kind == farm.kind.leased
    assert set((await device.describe()).features) == farm.kind.features
    assert (await device.health()).ok


async def test_it_acts_and_its_frame_shows_it(farm: Farm, client: FarmClient, device: LeasedDevice) -> None:
    described, before = await device.describe(), await device.observe(PNG)
    assert size_of(before) == (described.width, described.height)
    done = await device.act([farm.kind.visible], NOTHING)
    assert done.action_error is None
    after = await changed(device, before)
    assert size_of(after) == (described.width, described.height)
    last, media_type = await client.frame(device.id)
    assert (last, media_type) == (after.frame, "image/png"), "the pool keeps the last frame it saw"


async def test_a_point_off_the_screen_is_said_and_nothing_after_it_is_done(device: LeasedDevice) -> None:
    seen = await device.observe(NOTHING)
    wide, high = seen.width, seen.height
    for action in (Click(x=wide, y=0), Scroll(x=0, y=high, dy=9), Drag(path=((1, 1), (wide, high)))):
        refused = await device.act([Wait(ms=0), action, Wait(ms=60_000)], NOTHING)
        assert refused.action_error is not None
        assert refused.action_error.endswith(f"is off the screen, which has {wide} x {high} pixels")
    assert (await device.act([Move(x=wide - 1, y=high - 1)], NOTHING)).action_error in (
        None,
        "a phone has no 'move' action",
    )


async def test_a_command_runs_on_it(farm: Farm, client: FarmClient, device: LeasedDevice) -> None:
    if "shell" in farm.kind.features:
        said = await device.exec(["echo", "two words"], PATIENCE_S)
        assert (said.code, said.stdout) == (0, "two words\n")
        return
    with pytest.raises(UsageError, match="needs a grant"):
        await device.exec(["true"])
    with pytest.raises(UsageError, match="with shell were asked for; this farm has 0"):
        await client.lease(farm.kind.leased, grants=["shell"])


async def test_a_reset_takes_back_what_was_done(farm: Farm, device: LeasedDevice) -> None:
    await device.put(farm.kind.file, b"left")
    assert await device.get(farm.kind.file) == b"left"
    if farm.kind.wiped:
        await device.reset(0, ResetSpec(), NOTHING)
        with pytest.raises(FaultError) as gone:
            await device.get(farm.kind.file)
        assert gone.value.fault.origin == "task"
        return
    with pytest.raises(UsageError, match="cannot be set to a baseline"):
        await device.reset(0, ResetSpec(url="https://example.org"), NOTHING)


async def test_a_snapshot_brings_back_what_was(farm: Farm, device: LeasedDevice) -> None:
    if "snapshot" not in farm.kind.features:
        with pytest.raises(UsageError, match=r"cannot do that.*'snapshot'"):
            await device.snapshot()
        return
    await device.put(farm.kind.file, b"kept")
    name = await device.snapshot()
    await device.put(farm.kind.file, b"changed")
    await device.reset(0, ResetSpec(snapshot=name), NOTHING)
    assert await device.get(farm.kind.file) == b"kept"
    with pytest.raises(UsageError, match="no snapshot"):
        await device.reset(0, ResetSpec(snapshot="never-taken"), NOTHING)


async def test_a_fork_is_in_the_state_of_its_origin(farm: Farm, device: LeasedDevice) -> None:
    if "fork" not in farm.kind.features:
        with pytest.raises(UsageError, match="cannot be forked"):
            await device.fork()
        assert (await device.health()).ok
        return
    await device.put(farm.kind.file, b"forked")
    (sibling,) = await device.fork()
    assert sibling.id != device.id
    assert await sibling.get(farm.kind.file) == b"forked"
    await sibling.put(farm.kind.file, b"its own")
    assert await device.get(farm.kind.file) == b"forked"
    await sibling.close()


async def test_its_services_are_forwarded(farm: Farm, device: LeasedDevice, tmp_path: Path) -> None:
    asked = {"cdp": ask_cdp, "adb": ask_adb, "osworld": ask_osworld}
    assert asked.keys() == SERVICES.keys()
    for service, ask in asked.items():
        if service in farm.kind.features:
            async with device.forward(service) as port:
                await asyncio.to_thread(ask, port, tmp_path)
            continue
        with pytest.raises(
            UsageError, match=rf"service '{service}' needs a grant|no service '{service}'|'{service}'"
        ):
            await device.connect(service)


def ask_cdp(port: int, _: Path) -> None:
    assert "Chrome" in json.loads(fetch(f"http://127.0.0.1:{port}/json/version"))["Browser"]


def ask_osworld(port: int, _: Path) -> None:
    assert fetch(f"http://127.0.0.1:{port}/platform") == b"Linux"


def ask_adb(port: int, home: Path) -> None:
    """With a server and a key of the holder's own."""
    serial = f"127.0.0.1:{port}"
    environment = {**os.environ, "HOME": str(home), "ADB_SERVER_SOCKET": f"localfilesystem:{home}/adb"}

    def adb(*words: str) -> str:
        command = ["adb", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout

    try:
        assert "connected to" in adb("connect", serial)
        assert adb("-s", serial, "shell", "echo", "through") == "through\n"
    finally:
        adb("kill-server")


def fetch(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
        content: bytes = answer.read()
    return content


async def test_after_its_release_the_next_holder_has_it_clean_and_the_last_has_nothing(
    farm: Farm, client: FarmClient, device: LeasedDevice
) -> None:
    await device.put(farm.kind.file, b"left")
    await device.act([farm.kind.visible], NOTHING)
    await device.close()
    with pytest.raises(LeaseError):
        await device.observe(NOTHING)
    heir = await client.lease(device=device.id, grants=farm.kind.grants, wait=PATIENCE_S)
    assert (heir.id, heir.token > device.token) == (device.id, True)
    if farm.kind.wiped:
        with pytest.raises(FaultError) as gone:
            await heir.get(farm.kind.file)
        assert gone.value.fault.origin == "task"
    (told,) = [one for one in (await client.devices()).devices if one.id == device.id]
    assert "not the baseline" not in told.reason, told.reason


def test_a_device_that_cannot_be_as_its_config_says_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "farm.toml"
    config.write_text('[[devices]]\nkind = "remote"\nurl = "http://127.0.0.1:9"\nof = "sim"\n')
    words = ["guiagent.cli", "up", "--config", str(config), "--port", "0", "--state-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=UP_S)
    assert done.returncode == UsageError.exit_code, done.stderr
    assert done.stderr.count("\n") == 1 and "asks for its token" in done.stderr
