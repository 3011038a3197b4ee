"""Grounding items: published formats, hostile files, a still screen, and the rule of the point in the box."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guiagent.actions import Action, Answer, Click, Done, Move, Type
from guiagent.client.still import StillDevice
from guiagent.errors import FaultError, UsageError
from guiagent.types import Capabilities, Ending, ObserveSpec, ResetSpec, Score
from rewards.audit import audit
from rewards.catalogue import find_taskset, training_names
from rewards.tasksets.grounding import Grounding
from rewards.tasksets.grounding.items import Item, hit, read_items, write_items
from tests.support.pictures import picture, row, screenspot

SPEC = ObserveSpec(frame="png")


def one(folder: Path, **fields: Any) -> Path:
    """A folder with one item, some of whose fields are others."""
    picture(folder, "a.png", (200, 100))
    (folder / "x.json").write_text(json.dumps([row("a.png", (10, 20, 30, 40)) | fields]))
    return folder


def test_both_conventions_of_boxes_are_read_as_published(tmp_path: Path) -> None:
    (first,) = read_items(one(tmp_path / "v2"))
    assert first.box == (10, 20, 40, 60) and first.size == (200, 100)
    assert (first.element, first.platform, first.source) == ("text", "desktop", "windows")
    pro = tmp_path / "pro"
    picture(pro, "a.png", (3840, 2160))
    (pro / "screenspot_imgs").rename(pro / "images")
    (pro / "annotations").mkdir()
    published = {
        "img_filename": "a.png",
        "bbox": [10, 20, 30, 40],
        "instruction": "zoom in",
        "instruction_cn": "",
        "id": "blender_windows_0",
        "application": "blender",
        "platform": "windows",
        "img_size": [3840, 2160],
        "ui_type": "icon",
        "group": "Creative",
    }
    (pro / "annotations" / "blender.json").write_text(json.dumps([published]))
    (second,) = read_items(pro)
    assert second.box == (10, 20, 30, 40)
    assert (second.element, second.platform, second.resolution) == ("icon", "desktop", "4K and more")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (inner,) = read_items(one(tmp_path / "inner"))
    (tmp_path / "inner" / "x.json").unlink()
    write_items(tmp_path / "inner", [inner])
    assert [item.box for item in read_items(tmp_path / "inner")] == [(10, 20, 40, 60)]
    items = read_items(screenspot(tmp_path))
    (tmp_path / "screenspot_web.json").unlink()
    write_items(tmp_path, items)
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        f"screenspot_{platform}.json" for platform in ("desktop", "mobile", "web")
    ]
    said = {(i.picture, i.box, i.instruction, i.element, i.source) for i in items}
    assert {(i.picture, i.box, i.instruction, i.element, i.source) for i in read_items(tmp_path)} == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"img_filename": "../../../etc/passwd"}, "no picture|not inside"),
        ({"img_filename": "/etc/passwd"}, "not inside"),
        ({"img_filename": "b.png"}, "no picture 'b.png'"),
        ({"img_filename": "a\0.png"}, "x.json, item 0"),
        ({"bbox": [10, 20, -5, 40]}, "is empty"),
        ({"bbox": [500, 20, 30, 40]}, "not on its picture"),
        ({"bbox": [1, 2, 3]}, "no file of grounding items"),
        ({"bbox": [1, 2, 3, "4"]}, "no file of grounding items"),
        ({"bbox": [1, 2, 3, 1e999]}, "no file of grounding items|number"),
        ({"instruction": " "}, "instruction is empty"),
        ({"instruction": "x" * 3000}, "longer than"),
        ({"data_type": "sound"}, "no file of grounding items"),
        ({"data_type": None}, "neither data_type nor ui_type"),
    ],
)
def test_a_bad_item_is_one_line_that_names_it(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        read_items(one(tmp_path, **fields))


def test_hostile_pictures_are_refused_by_their_heads(tmp_path: Path) -> None:
    one(tmp_path)
    path = tmp_path / "screenspot_imgs" / "a.png"
    data = bytearray(path.read_bytes())
    data[16:24] = (60_000).to_bytes(4, "big") * 2  # what its head says: 3.6 gigapixels
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"too many|cannot be read"):
        read_items(tmp_path)
    path.write_text("<svg/>")
    with pytest.raises(UsageError, match="cannot be read"):
        read_items(tmp_path)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="not inside"):
        read_items(tmp_path)
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(UsageError, match="no file of grounding items"):
        read_items(tmp_path)
    with pytest.raises(UsageError, match="has no JSON files"):
        read_items(tmp_path / "nowhere")


@given(st.floats(0, 100), st.floats(0, 50), st.floats(0.5, 100), st.floats(0.5, 50))
def test_the_edges_belong_to_the_box_and_its_centre_is_in_it(x: float, y: float, w: float, h: float) -> None:
    box = (x, y, x + w, y + h)
    assert hit((x, y), box) and hit((x + w, y + h), box)
    assert not hit((x - 0.1, y), box) and not hit((x, y + h + 0.1), box) and not hit(None, box)


def test_the_share_of_an_area_counts_the_pixels_that_hit() -> None:
    for box in ((3.5, 2.0, 9.5, 4.9), (0.0, 0.0, 20.0, 10.0), (19.0, 9.0, 20.0, 10.0)):
        item = Item("i", Path(), (20, 10), box, "press it", "text", "web")
        counted = sum(hit((x, y), box) for x in range(20) for y in range(10))
        assert item.area_share == pytest.approx(counted / 200)


async def score(folder: Path, *actions: Action) -> Score:
    task, device = Grounding(folder).task("x-0000", 1), StillDevice()
    said, shown = await task.setup(device, SPEC)
    assert said == "press 0" and (shown.width, shown.height) == (200, 100)
    assert shown.frame == (folder / "screenspot_imgs" / "a.png").read_bytes()
    assert shown.probes == {}  # nothing of the box is in what an agent gets
    if actions:
        await device.act(actions, SPEC)
    return await task.check(device, shown, Ending(answer="(11, 21)", claim="success"))


async def test_only_the_first_point_counts(tmp_path: Path) -> None:
    one(tmp_path)
    assert (await score(tmp_path, Click(x=10, y=20))).value == 1
    assert (await score(tmp_path, Move(x=40, y=60))).value == 1
    assert (await score(tmp_path, Click(x=41, y=60))).value == 0
    spray: list[Action] = [*(Click(x=x, y=30) for x in range(0, 200, 10)), Click(x=11, y=21)]
    assert (await score(tmp_path, *spray)).value == 0
    for other in (Type(text="x"), Done(), Answer(text="(11, 21)")):
        assert (await score(tmp_path, other, Click(x=11, y=21))).reason == "pointed nowhere"
    assert (await score(tmp_path)).value == 0


async def test_every_item_proves_its_check(tmp_path: Path) -> None:
    screenspot(tmp_path, per_picture=1)
    tasks = find_taskset(f"screenspot:{tmp_path}")
    for name in tasks.names:
        proof = await audit(lambda name=name: tasks.task(name, 1), StillDevice())  # type: ignore[misc, arg-type]
        assert not proof.failures, proof


async def test_a_picture_that_is_gone_or_another_is_a_fault_of_the_task(tmp_path: Path) -> None:
    one(tmp_path)
    task, device = Grounding(tmp_path).task("x-0000", 1), StillDevice()
    picture(tmp_path, "a.png", (20, 10))
    with pytest.raises(FaultError, match="no_picture"):
        await task.setup(device, SPEC)
    (tmp_path / "screenspot_imgs" / "a.png").unlink()
    with pytest.raises(FaultError, match="no_picture"):
        await task.setup(device, SPEC)
    with pytest.raises(FaultError, match="no picture to show"):
        await device.reset(1, ResetSpec(state={"picture": 7}), SPEC)


def test_the_digest_changes_with_an_item_and_with_a_picture(tmp_path: Path) -> None:
    before = Grounding(one(tmp_path)).digest
    assert Grounding(one(tmp_path)).digest == before
    assert Grounding(one(tmp_path, bbox=[10, 20, 30, 41])).digest != before
    one(tmp_path)
    picture(tmp_path, "a.png", (201, 100))
    assert Grounding(tmp_path).digest != before


async def test_items_are_not_trained_on_and_need_a_screen_of_pictures(tmp_path: Path) -> None:
    tasks = Grounding(one(tmp_path))
    for names in ("*",), ("x-0000",):
        with pytest.raises(UsageError, match="for evaluation alone"):
            training_names(tasks, names)

    class Browser(StillDevice):
        async def describe(self) -> Capabilities:
            return Capabilities("browser", 800, 600)

    with pytest.raises(FaultError, match="unsuitable_device"):
        await tasks.task("x-0000", 1).setup(Browser(), SPEC)
