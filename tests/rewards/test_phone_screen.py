"""Phone tasks solved, and spoiled, by touches on what the screen shows, through the agent loop."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import cast

import pytest
import pytest_asyncio

from devices.drivers.android.device import AndroidDevice
from guiagent.actions import Action, Answer, Click, Done, LongPress, Open, Type
from guiagent.episode import run_episode
from guiagent.errors import FaultError
from guiagent.protocols import Device, Turn
from guiagent.types import Capabilities, Node, Observation, ObserveSpec, PolicyOutput, ResetSpec, Trajectory
from rewards.checks.android import Folder, write
from rewards.checks.android_tables import CALLS, EVENTS, MESSAGES
from rewards.tasksets.phone import PhoneTasks
from rewards.tasksets.phone.expenses import CATEGORIES
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.task import PhoneTask
from rewards.tasksets.phone.template import NOW_MS
from tests.support.phones import started

SPEC = ObserveSpec(frame="jpeg", quality=30, tree=True)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[AndroidDevice]:
    device = await started(720, 1280)
    yield device
    await device.close()


class Hands:
    """A policy that plays a script: what it names it touches, where the tree of the screen has it.

    "@NAME" opens an app, "_NAME" presses long, "=TEXT" types; the rest is touched, the topmost
    of several. An action stands for itself.
    """

    def __init__(self, script: Sequence[str | Action]) -> None:
        self._script = script

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        action = self._next(self._script[len(history)], observation.tree or [])
        return PolicyOutput(text=repr(action), actions=[action.model_dump()])

    def forget(self, episode: str) -> None:
        pass

    def _next(self, word: str | Action, tree: Sequence[Node]) -> Action:
        if not isinstance(word, str):
            return word
        match word[0], word[1:]:
            case "@", app:
                return Open(target=app)
            case "=", text:
                return Type(text=text)
            case "_", name:
                x, y = _middle(name, tree)
                return LongPress(x=x, y=y, ms=1000)
        x, y = _middle(word, tree)
        return Click(x=x, y=y)


def _middle(name: str, tree: Sequence[Node]) -> tuple[int, int]:
    boxes = [node.box for node in tree if name in (node.name, node.value)]
    assert boxes, f"no {name!r} among {[node.name for node in tree]}"
    x, y, width, height = boxes[-1]
    return x + width // 2, y + height // 2


async def play(
    task: PhoneTask, device: AndroidDevice, script: Sequence[str | Action], ending: Action
) -> Trajectory:
    return await run_episode(
        task, device, Hands([*script, ending]), keep_frame=lambda frame: "frame", spec=SPEC
    )


def _value(task: PhoneTask, name: str) -> str:
    """What the first added or changed row of the goal has in that column."""
    [fact, *_] = task.scenario.goal
    assert isinstance(fact, Added | Changed)
    return str((fact.row if isinstance(fact, Added) else fact.values)[name])


async def test_a_contact_is_deleted_among_three_that_are_called_much_the_same(device: AndroidDevice) -> None:
    task = PhoneTasks().task("contacts-delete", 1)
    [fact] = task.scenario.goal
    assert isinstance(fact, Removed)
    name = str(fact.where["display_name"])
    played = await play(
        task, device, ["@Contacts", name, "More options", "Delete", "Delete"], Done(status="success")
    )
    assert played.stop == "agent_done"
    assert played.success and not played.false_completion
    assert played.score is not None
    assert (played.score.progress, played.score.side_effects) == (1.0, [])


async def test_a_form_is_filled_in_and_saved(device: AndroidDevice) -> None:
    task = PhoneTasks().task("expenses-add", 1)
    dollars = f"{int(_value(task, 'amount')) / 100:.2f}"
    category = next(name for name, number in CATEGORIES.items() if str(number) == _value(task, "category"))
    form = ["Add expense", "Name", f"={_value(task, 'name')}", "Amount", f"={dollars}", category]
    unsaved = await play(task, device, ["@Expenses", *form], Done(status="success"))
    assert unsaved.score is not None
    assert (unsaved.score.value, unsaved.score.progress, unsaved.score.side_effects) == (0.0, 0.0, [])
    assert unsaved.false_completion

    task = PhoneTasks().task("expenses-add", 1)
    assert (await play(task, device, ["@Expenses", *form, "Save"], Done(status="success"))).success


async def test_an_alarm_with_days_and_a_label_is_set(device: AndroidDevice) -> None:
    task = PhoneTasks().task("clock-add-repeating", 1)
    days = int(_value(task, "daysofweek"))
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    time = ["Hour", f"={_value(task, 'hour')}", "Minute", f"={_value(task, 'minutes')}", "AM", "OK"]
    chosen = [name for day, name in enumerate(names) if days & 1 << day]
    script = ["@Clock", "Add alarm", *time, *chosen, "Add label", f"={_value(task, 'label')}", "OK"]
    assert (await play(task, device, script, Done(status="success"))).success


async def test_a_file_is_copied_and_the_one_it_came_from_stays(device: AndroidDevice) -> None:
    task = PhoneTasks().task("files-copy", 1)
    carried = ["@Files", "Download", f"_{_value(task, 'path')}", "More options"]
    copied = await play(
        task, device, [*carried, "Copy to…", "Navigate up", "Music", "Copy"], Done(status="success")
    )
    assert copied.success
    moved = await play(
        PhoneTasks().task("files-copy", 1),
        device,
        [*carried, "Move to…", "Navigate up", "Music", "Move"],
        Done(status="success"),
    )
    assert moved.score is not None
    assert (moved.score.value, moved.score.progress) == (0.0, 1.0)
    assert moved.score.side_effects == [f"Download/{_value(task, 'path')}"]


async def test_reading_a_conversation_is_no_side_effect_and_another_switch_is(device: AndroidDevice) -> None:
    task = PhoneTasks().task("messages-reply", 1)
    written = str(task.instruction).split('"')[1]
    script = ["@Messages", written, "Text message", f"={_value(task, 'body')}", "Send SMS"]
    replied = await play(task, device, script, Done(status="success"))
    assert replied.success
    assert replied.score is not None and replied.score.side_effects == []

    task = PhoneTasks().task("messages-reply", 1)
    wifi_off = ["@Settings", "Wi-Fi", "Use Wi-Fi"]
    replied = await play(task, device, [*wifi_off, *script], Done(status="success"))
    assert replied.success
    assert replied.score is not None and replied.score.side_effects == ["settings/global/wifi_on"]


async def test_a_question_is_answered_in_typed_fields(device: AndroidDevice) -> None:
    def task() -> PhoneTask:
        return PhoneTasks().task("contacts-ask-number", 1)

    number = str(task().scenario.answer["number"])
    name = task().instruction.removeprefix("What is the phone number of ").partition("?")[0]
    look = ["@Contacts", name]
    assert (await play(task(), device, look, Answer(text=f'{{"number": "{number}"}}'))).success
    for wrong in (f"It is {number}.", f'"{number}"', f'{{"number": "{number[:-1]}"}}'):
        answered = await play(task(), device, look, Answer(text=wrong))
        assert answered.score is not None
        assert (answered.score.value, answered.score.progress) == (0.0, 0.0)


async def test_what_cannot_be_done_has_to_be_said_and_what_can_must_not(device: AndroidDevice) -> None:
    given_up = Done(status="infeasible")
    for name, right in (("contacts-change-missing", 1.0), ("contacts-change-number", 0.0)):
        score = (await play(PhoneTasks().task(name, 1), device, ["@Contacts"], given_up)).score
        assert score is not None
        assert score.value == right


async def test_the_same_seed_makes_the_same_phone_and_another_one_does_not(device: AndroidDevice) -> None:
    async def state(seed: int) -> tuple[str, str, bytes]:
        task = PhoneTasks().task("notes-append", seed)
        instruction, _ = await task.setup(device, SPEC)
        digest = (await device.exec(["guiagent", "attest"], 10.0)).stdout
        shown = await device.act([Open(target="Notes")], SPEC)
        return instruction, digest, shown.frame

    first = await state(3)
    assert await state(4) != first
    assert await state(3) == first


async def test_a_device_that_cannot_be_put_back_is_refused(device: AndroidDevice) -> None:
    class Owned:
        async def describe(self) -> Capabilities:
            return Capabilities("android", 720, 1280, ["shell", "files", "a11y", "touch", "adb"])

    with pytest.raises(FaultError, match=r"unsuitable_device.*lacks snapshot"):
        await PhoneTasks().task("settings-switch", 1).setup(cast(Device, Owned()), SPEC)


async def test_a_phone_without_the_app_is_a_fault_of_the_task(device: AndroidDevice) -> None:
    task = replace(PhoneTasks().task("notes-delete", 1), packages=("org.example.absent",))
    with pytest.raises(FaultError, match=r"missing_app.*org\.example\.absent"):
        await task.setup(device, SPEC)


async def test_what_set_ups_stand_on_keeps_to_the_phone(device: AndroidDevice) -> None:
    await device.reset(0, ResetSpec(), SPEC)
    shell = await device.exec(["sh", "-c", "cd /sdcard/Download && X=1 && pwd && echo $X | cat"], 10.0)
    assert (shell.code, shell.stdout) == (0, "/sdcard/Download\n1\n")
    assert (await device.exec(["sh", "-c", "false && true"], 10.0)).code == 1
    assert (await device.exec(["sh", "script"], 10.0)).code == 2

    await write(device, [Folder("/sdcard/Download").insert({"path": "new.txt", "text": "x"})])
    assert (await device.exec(["stat", "-c", "%Y", "/sdcard/Download/new.txt"], 10.0)).stdout.strip() == str(
        NOW_MS // 1000
    )
    await device.exec(["rm", "-rf", "/sdcard/Download"], 10.0)
    assert await Folder("/sdcard/Download").read(device) == {}

    printed = (await device.exec(["guiagent", "state", "get"], 10.0)).stdout
    assert (await device.exec(["guiagent", "state", "get", "/data/local/tmp/d.json"], 10.0)).code == 0
    assert (await device.get("/data/local/tmp/d.json")).decode() == printed
    assert (await device.exec(["guiagent", "state", "get", "/data/data/d.json"], 10.0)).code == 1


async def test_both_ways_to_read_a_table_show_the_same(device: AndroidDevice) -> None:
    await device.reset(0, ResetSpec(), SPEC)
    for table in (CALLS, MESSAGES, EVENTS):
        asked, pulled = await table.read(device), await replace(table, pulled=True).read(device)
        assert asked == pulled
        assert len(asked) > 3
