"""The base of a recipe in stages: where words are on a screen, and that reading and pointing are learned."""

import io
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw

from guiagent.errors import InfrastructureError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Box, Node, PolicyOutput, Score, Step, Trajectory
from training.config import SMALL_POLICY
from training.inputs.encoder import Encoder
from training.model.pretrained import open_model
from training.sft import base
from training.sft.screens import Screen, load, save
from training.stages import BaseConfig, StagesConfig

SIZE, GRID = (160, 224), (5, 7)
FINISHED = "Action: finished(content='')"
NAMES = ("Orders", "Clients", "Trips", "Dark mode")


def row(name: str, index: int) -> Node:
    return Node("link", name, (0, 28 + 32 * index, 160, 32), str(index))


def screen(*names: str) -> Screen:
    image = Image.new("RGB", SIZE, "white")
    for index, name in enumerate(names):
        ImageDraw.Draw(image).text((7, 44 + 32 * index), name, "black", anchor="lm")
    image.save(frame := io.BytesIO(), "PNG")
    heading = Node("heading", "Screen", (0, 0, 160, 28), "h")
    return Screen(frame.getvalue(), *SIZE, [heading, *(row(name, index) for index, name in enumerate(names))])


def screens() -> list[Screen]:
    rng = random.Random(0)
    return [screen(*rng.sample(NAMES, 3)) for _ in range(12)]


@pytest.mark.parametrize(
    ("box", "tokens"),
    [
        ((0, 28, 160, 32), [5, 6, 7]),  # a row: its middle line is in the second row of tokens
        ((0, 28, 20, 32), [5]),
        ((64, 100, 96, 20), [17, 18]),
        ((150, 200, 60, 60), [34]),  # reaches beyond the frame
    ],
)
def test_words_cover_the_first_three_fifths_of_an_elements_middle_line(box: Box, tokens: list[int]) -> None:
    assert base.covered(Node("link", "Orders", box), SIZE, GRID) == tokens


def test_an_element_in_front_hides_what_is_behind_it() -> None:
    back = Node("button", "Back", (0, 0, 28, 28), "b")
    shown = screen("Orders")
    found = base.named(Screen(shown.frame, *SIZE, [*shown.elements, back]), GRID)
    assert [found[token] for token in (0, 1, 5)] == ["Back", "Screen", "Orders"]


def test_a_sentence_is_no_name() -> None:
    sentence = Node("text", "Find the email by Alysia and click the star.", (0, 0, 160, 28), "s")
    shown = screen("Orders")
    only = Screen(shown.frame, *SIZE, [sentence])
    assert base.named(only, GRID) == {} == base.pointable(only)


def test_of_a_control_and_its_label_the_control_is_pointed_at_and_of_two_rows_none() -> None:
    label = Node("text", "Orders", (20, 32, 60, 11), "l")
    control = Node("checkbox", "Orders", (4, 30, 14, 14), "c")
    shown = screen("Trips")
    row = Screen(shown.frame, *SIZE, [label, control, *shown.elements])
    assert base.pointable(row)["Orders"] == control
    twice = Screen(shown.frame, *SIZE, [label, control, Node("text", "Orders", (20, 90, 60, 11), "m")])
    assert base.pointable(twice) == {}
    beyond = Screen(shown.frame, *SIZE, [Node("button", "Save", (150, 220, 40, 20), "b")])
    assert base.pointable(beyond) == {}


def test_screens_are_read_as_they_were_written_and_damage_is_told(tmp_path: Path) -> None:
    save(tmp_path / "screens", screens())
    assert load(tmp_path / "screens") == screens()
    (tmp_path / "screens").write_bytes((tmp_path / "screens").read_bytes()[:-9])
    with pytest.raises(InfrastructureError, match="remove it to take new ones"):
        load(tmp_path / "screens")


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """A demonstration, and with it the words of the dialect."""
    with TrajectoryStore(tmp_path / "shown") as store:
        step = Step(store.put_frame(screens()[0].frame), *SIZE, PolicyOutput(FINISHED))
        store.commit([Trajectory("one", "t", 0, "Open it.", [step], "agent_done", score=Score(1.0))])
    return tmp_path / "shown"


def made(folder: Path, shown: Path, reading: int, pointing: int, **more: int) -> Path:
    save(folder / base.SCREENS, screens())
    config = BaseConfig(reading=reading, pointing=pointing, batch=4, processes=1, **more)
    return base.fit(folder, shown, StagesConfig(base=config), lambda *_: None)


@torch.no_grad()
def losses(policy: Path, folder: Path) -> tuple[float, float, float]:
    """The losses of reading, pointing and copying, on screens drawn from those in `folder`."""
    network, encoder = open_model(policy).float(), Encoder(policy)

    def loss(*parts: str) -> float:
        drawn = iter([random.Random(1)])
        return float(next(base._losses(folder / base.SCREENS, "ui-tars", parts, network, encoder, 12, drawn)))

    read, pointed = loss("reading"), loss("reading", "pointing")
    return read, pointed - read, loss("reading", "pointing", "copying") - pointed


def test_a_base_has_the_words_of_its_tasks_and_learns_to_read_and_to_point(
    tmp_path: Path, shown: Path
) -> None:
    short, long = tmp_path / "short", tmp_path / "long"
    before, after = losses(made(short, shown, 1, 1), short), losses(made(long, shown, 24, 10), long)
    assert after[0] < before[0] / 2
    assert after[1] < before[1] / 2

    encoder = Encoder(long / base.POLICY)
    assert [len(encoder.plain(f'"{name}"')) - 2 for name in NAMES] == [1, 1, 1, 2]
    assert len(encoder.plain(FINISHED)) < len(Encoder(SMALL_POLICY).plain(FINISHED)) / 2


def test_a_base_has_the_width_that_is_asked_for_and_that_of_the_small_policy_otherwise(
    tmp_path: Path, shown: Path
) -> None:
    narrow: Any = open_model(made(tmp_path / "narrow", shown, 1, 1, hidden=64)).config
    assert narrow.text_config.hidden_size == 64
    small: Any = open_model(SMALL_POLICY).config
    assert BaseConfig().hidden == small.text_config.hidden_size


@pytest.mark.slow
def test_a_base_that_learns_to_copy_still_points(tmp_path: Path, shown: Path) -> None:
    never, copies = tmp_path / "never", tmp_path / "copies"
    without = losses(made(never, shown, 8, 16), never)
    also = losses(made(copies, shown, 8, 16, copying=24), copies)
    assert also[2] < without[2] / 4
    assert also[1] < without[1]
