"""Recorded leases: what is done and seen by any verb becomes an episode, and no password does."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace
from PIL import Image, ImageDraw

from devices.api.server import running
from devices.config import BrowserConfig, PoolConfig, SimConfig
from devices.drivers import DRIVERS
from guiagent.actions import ACTIONS, Action, Type, Wait
from guiagent.client import FarmClient
from guiagent.client.recording import device as recorded
from guiagent.client.recording.device import RecordedDevice
from guiagent.client.recording.secrets import HIDDEN, is_hidden, without_secrets
from guiagent.difference import TOLERANCE, difference
from guiagent.errors import FaultError, InfrastructureError, MissingProgram
from guiagent.storage import recording
from guiagent.storage.recording import Recording
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Node, ObserveSpec, ResetSpec, Trajectory
from tests.support.browser_pages import document

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def farm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FarmClient]:
    folder = tmp_path_factory.mktemp("pool")
    config = PoolConfig(state_dir=folder, port=0, devices=[SimConfig(count=3)])
    async with running(config, DRIVERS) as pool:
        await pool.service.settled()
        async with FarmClient(pool.endpoint.url, pool.endpoint.token) as client:
            yield client


def episodes(folder: Path) -> list[Trajectory]:
    with TrajectoryStore(folder / "trajectories", readonly=True) as store:
        found = list(store)
        for one in found:
            for hash in {*(step.frame for step in one.steps), one.final_frame}:
                assert Image.open(io.BytesIO(store.frame(hash))).size == (320, 240)
        return found


def actions(one: Trajectory) -> list[list[Action]]:
    return [ACTIONS.validate_python(step.policy.actions) for step in one.steps]


async def test_every_verb_is_in_the_record(farm: FarmClient, tmp_path: Path) -> None:
    grants = ("shell", "files", "exec")
    async with farm.lease("sim", grants=grants, label="shop", record=tmp_path) as device:
        assert isinstance(device, RecordedDevice)
        await device.click_on("A", role="button")
        await device.type("milk", submit=True)
        await device.key("Enter")
        await device.exec(["echo", "there"])
        await device.put("/list", b"eggs")
        assert await device.evaluate("presses") == 1
        blind = await device.act(ACTIONS.validate_python([{"type": "wait", "ms": 1}]), ObserveSpec("none"))
        assert (blind.frame, blind.hash, blind.media_type, blind.tree) == (b"", "", "", None)
        assert not (tmp_path / "trajectories").exists()
    [one] = episodes(tmp_path)
    told = [step.policy.text for step in one.steps]
    assert [text.partition('"type":"')[2].partition('"')[0] for text in told[:4]] == [
        "click",
        "type",
        "key",
        "shell",
    ]
    assert told[4:6] == ["put /list, 4 bytes", "evaluate presses"]
    assert (one.task, one.instruction, one.device, one.start) == ("lease", "shop", device.id, None)
    assert [one.steps[0].elements[0]] == [Node("button", "A", one.steps[0].elements[0].box)]  # type: ignore[union-attr]
    assert one.steps[1].elements[0].role == "textbox"  # type: ignore[union-attr]
    assert actions(one)[1][0].text == "milk"  # type: ignore[union-attr]
    assert one.steps[1].frame != one.steps[2].frame  # the line was sent
    assert not (tmp_path / "open").exists()


async def test_a_reset_begins_another_episode_and_a_fault_is_one(farm: FarmClient, tmp_path: Path) -> None:
    async with farm.lease("sim", record=tmp_path) as device:
        await device.type("one")
        await device.reset(7, ResetSpec("https://example.org/"), ObserveSpec())
        await device.type("two")
        with pytest.raises(FaultError, match="told to crash"):
            await device.open("sim:crash")
    first, second = episodes(tmp_path)
    assert (first.stop, first.start, first.fault) == ("agent_done", None, None)
    assert (second.seed, second.start) == (7, ResetSpec("https://example.org/"))
    assert second.stop == "fault" and second.fault is not None and second.fault.code == "crashed"
    assert "told to crash" in (second.steps[-1].action_error or "")


async def test_a_look_is_recorded_where_it_shows_something_else(farm: FarmClient, tmp_path: Path) -> None:
    device = await farm.lease("sim", record=tmp_path)
    await device.type("one")
    await device.screenshot()  # the same screen, as a PNG
    await device.observe(ObserveSpec())
    other = farm.resume(device._info, device._request)  # a hand that is not recorded
    await other.type("and two")
    await device.screenshot()
    await other.type("and three")
    await device.wait_for("oneand twoand three", stillness=0.0)
    await device.close()
    await other.detach()
    [one] = episodes(tmp_path)
    assert [[type(action) for action in said] for said in actions(one)] == [[Type], [Wait], [Wait]]
    assert len({step.frame for step in one.steps} | {one.final_frame}) == 4


async def test_a_killed_holder_loses_nothing(farm: FarmClient, tmp_path: Path) -> None:
    script = f"""
import asyncio, os, signal
from pathlib import Path
from guiagent.client import FarmClient
async def main():
    async with FarmClient({farm.url!r}, {farm.token!r}) as farm:
        device = await farm.lease("sim", ttl=5, record=Path({str(tmp_path)!r}))
        await device.type("kept")
        await device.key("Enter")
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env=os.environ | {"PYTHONPATH": os.getcwd()}
    )
    assert await killed.wait() == -signal.SIGKILL
    left = Recording(tmp_path)
    assert left.is_open
    whole = left.finish()
    assert whole is not None and len(whole.steps) == 2
    assert not left.is_open and [one.id for one in episodes(tmp_path)] == [whole.id]


async def test_one_process_after_another_adds_to_a_record(farm: FarmClient, tmp_path: Path) -> None:
    """As the commands `guiagent do` and their kin do."""
    device = await farm.lease("sim", record=tmp_path)
    saved = await device.detach()
    for word in ("a", "b"):
        device = farm.resume(*saved, record=tmp_path)
        await device.type(word)
        await device.detach()
    assert Recording(tmp_path).is_open
    await farm.resume(*saved, record=tmp_path).close()
    [one] = episodes(tmp_path)
    assert [said[0].text for said in actions(one)] == ["a", "b"]  # type: ignore[union-attr]
    assert len({step.frame for step in one.steps} | {one.final_frame}) == 3


async def test_forks_have_records_of_their_own(
    farm: FarmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "new_folder", lambda device, token: tmp_path / device)
    async with farm.lease("sim", record=True) as device:
        await device.type("before")
        [sibling] = await device.fork()
        await sibling.type("after")
        await sibling.close()
    [one] = episodes(tmp_path / sibling.id)
    assert one.start is not None and one.start.snapshot is not None and len(one.steps) == 1


async def test_where_the_disk_fails_the_verbs_go_on(
    farm: FarmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with farm.lease("sim", grants=("exec",), record=tmp_path) as device:
        assert isinstance(device, RecordedDevice)
        await device.type("kept")

        def full(*_: object) -> None:
            raise InfrastructureError("cannot write: no space left")

        monkeypatch.setattr(Recording, "add", full)
        await device.type(" and done")
        await device.type(" once")
        assert await device.evaluate("text") == "kept and done once"
        assert device.problem == "cannot write: no space left"
    assert len(episodes(tmp_path)[0].steps) == 1


async def test_a_record_is_bounded(farm: FarmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_STEPS", 2)
    async with farm.lease("sim", record=tmp_path) as device:
        assert isinstance(device, RecordedDevice)
        for word in "abcd":
            await device.type(word)
        assert device.problem == "the record is full"
    assert len(episodes(tmp_path)[0].steps) == 2


PASSWORD = Node("textbox", "PIN", (0, 0, 100, 20), states=("editable", "password"))
NAME = Node("textbox", "Name", (0, 30, 100, 20), states=("editable",))
SEND = Node("button", "Send", (0, 60, 100, 20))


def focus(node: Node) -> Node:
    return replace(node, states=(*node.states, "focused"))


TYPE = {"type": "type", "text": "s3cret"}
ON_PASSWORD, ON_NAME, ON_SEND = ({"type": "click", "x": 5, "y": y} for y in (5, 35, 65))
TAB = {"type": "key", "keys": ["Tab"]}


@pytest.mark.parametrize(
    ("said", "before", "after", "in_pages", "kept"),
    [
        ([TYPE], [focus(PASSWORD), NAME], None, True, False),
        ([TYPE], [PASSWORD, focus(NAME)], None, True, True),
        ([ON_PASSWORD, TYPE], [PASSWORD, focus(NAME)], None, True, False),
        ([ON_NAME, TYPE], [focus(PASSWORD), NAME], None, True, True),
        ([ON_SEND, TYPE], [PASSWORD, focus(NAME), SEND], None, False, False),
        ([TAB, TYPE], [PASSWORD, focus(NAME)], None, False, False),
        ([TAB, TYPE], [focus(NAME), SEND], None, False, True),
        ([TAB, TYPE], [focus(NAME), SEND], [PASSWORD], False, False),
        ([TYPE], [PASSWORD, focus(NAME)], [focus(PASSWORD), NAME], False, False),  # a script moved the focus
        ([TYPE], [SEND], [SEND], True, False),  # it may be in a frame that tells nothing
        ([TYPE], [SEND], [SEND], False, True),
        ([TYPE], None, None, False, False),
        ([{"type": "key", "keys": ["s"]}], [focus(PASSWORD)], None, False, False),
        ([{"type": "key", "keys": ["Control", "v"]}], [focus(PASSWORD)], None, False, True),
        ([{"type": "key_down", "key": "s"}], [focus(PASSWORD)], None, False, False),
    ],
)
async def test_only_what_goes_into_no_password_field_is_kept(
    said: list[dict[str, object]],
    before: list[Node] | None,
    after: list[Node] | None,
    in_pages: bool,
    kept: bool,
) -> None:
    done = ACTIONS.validate_python(said)
    told = without_secrets(done, before, after, in_pages=in_pages)
    assert told[:-1] == done[:-1]
    assert (told[-1] == done[-1], is_hidden(told[-1])) == (kept, not kept)


@pytest.mark.browser
async def test_no_password_of_a_real_page_is_in_the_record(tmp_path: Path) -> None:
    page = document(
        "<label>Name <input id=n></label><label>PIN <input type=password id=p></label>"
        "<script>p.oninput = () => document.title = p.value.length</script>"
    )
    config = PoolConfig(state_dir=tmp_path / "pool", port=0, devices=[BrowserConfig(width=320, height=240)])
    try:
        async with (
            running(config, DRIVERS) as pool,
            FarmClient(pool.endpoint.url, pool.endpoint.token) as farm,
            farm.lease("browser", record=tmp_path / "record") as device,
        ):
            await device.reset(0, page, ObserveSpec())
            await device.type_into("Name", "alice")
            typed = await device.type_into("PIN", "hunter2")
            assert typed.title == "7"
            for key in ("s", "3"):
                await device.key(key)
            await device.act(ACTIONS.validate_python([TAB, TYPE]), ObserveSpec())
    except MissingProgram as missing:
        pytest.skip(str(missing))
    written = b"".join(path.read_bytes() for path in (tmp_path / "record").rglob("*") if path.is_file())
    [one] = episodes(tmp_path / "record")
    typing = [action for said in actions(one) for action in said if isinstance(action, Type)]
    assert [action.text for action in typing] == ["alice", HIDDEN, HIDDEN]
    assert [said[0].keys for said in actions(one)[2:4]] == [(HIDDEN,), (HIDDEN,)]  # type: ignore[union-attr]
    assert b"alice" in written and b"hunter2" not in written and b"s3cret" not in written


def screen(format: str, text: str = "Total 118.20", caret: bool = False, at: int = 40) -> bytes:
    picture = Image.new("RGB", (320, 240), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((20, at), text, "black", font_size=12)
    if caret:
        draw.rectangle((150, 100, 151, 115), "black")
    buffer = io.BytesIO()
    picture.save(buffer, format, quality=85)
    return buffer.getvalue()


async def test_a_difference_is_what_somebody_would_see() -> None:
    for other in (screen("jpeg"), screen("png", caret=True), screen("jpeg", caret=True)):
        assert difference(screen("png"), other)[0] <= TOLERANCE
    for other in (screen("png", "Total 718.20"), screen("jpeg", "Total 119.90"), screen("png", at=44)):
        share, box = difference(screen("png"), other)
        assert share > TOLERANCE and box is not None and 15 < box[1] < 60
    assert difference(screen("png"), screen("png")) == (0.0, None)
    with pytest.raises(ValueError, match="no picture"):
        difference(screen("png"), b"GIF89a")
