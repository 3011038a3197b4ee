"""A policy on a model server shows the screens it should at every turn: numbers in them are read back."""

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from guiagent.dialects import DIALECTS, find_dialect
from guiagent.episode import PastTurn
from guiagent.policies.chat import ChatPolicy, ChatServer
from tests.support.canary import canary, number_in
from tests.support.model_stand_in import stand_in

SIZE = (640, 400)


def shown(body: dict[str, Any]) -> list[int]:
    """The numbers in the pictures of a request, in order."""
    parts = [part for message in body["messages"] for part in message["content"] if isinstance(part, dict)]
    urls = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
    pictures = [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]
    return [number_in(np.asarray(picture.convert("RGB"))) for picture in pictures]


@pytest.mark.parametrize("dialect", ["ui-tars", "qwen3-computer", "gelab-zero"])
@pytest.mark.parametrize("form", ["png", "jpeg"])
@pytest.mark.parametrize("most", [1, 3, None])
async def test_every_turn_shows_its_screen_and_the_ones_before(
    dialect: str, form: str, most: int | None
) -> None:
    with stand_in(lambda body: "no action") as server:
        policy = ChatPolicy(ChatServer(server.url, "m"), find_dialect(dialect), max_images=most)
        history: list[PastTurn] = []
        for turn in range(6):
            screen = canary(100 + turn, SIZE, form)
            output = await policy.act("e", "do it", history, screen)
            history.append(PastTurn(screen, output))
        await policy.close()
    wanted = [[100 + k for k in range(turn + 1)][-(most or 99) :] for turn in range(6)]
    assert [shown(body) for body in server.bodies] == wanted


async def test_every_dialects_prompt_has_the_screen() -> None:
    for number, name in enumerate(DIALECTS):
        with stand_in(lambda body: "no action") as server:
            policy = ChatPolicy(ChatServer(server.url, "m"), find_dialect(name))
            await policy.act("e", "do it", [], canary(number, SIZE))
            await policy.close()
        assert shown(server.bodies[0]) == [number], name


def test_a_canary_survives_scaling_and_compression_and_nothing_else_is_one() -> None:
    for number in (0, 1, 7, 65_535):
        frame = canary(number, SIZE, "jpeg").frame
        small = Image.open(io.BytesIO(frame)).resize((112, 84))
        assert number_in(np.asarray(small)) == number
    with pytest.raises(AssertionError, match="no canary"):
        number_in(np.tile(np.linspace(0, 255, 100)[None, :, None], (80, 1, 3)))
