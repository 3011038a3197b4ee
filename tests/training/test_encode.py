"""A conversation as tokens and patches, against the tokenizer, the chat template and the image processor."""

import io
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from guiagent.actions import Click
from guiagent.dialects.coordinates import smart_resize
from guiagent.errors import FaultError, InfrastructureError
from training.inputs import encoder as encode
from training.inputs.encoder import Encoder
from training.inputs.pictures import Normalization, Picture, patchify, pixel_values

EXACT = (160, 224)  # both sides whole visual tokens: no resizing
NAMES = ("<|image_pad|>", "<|video_pad|>", "<|im_end|>", "<|im_start|>", "<|vision_start|>", "<|endoftext|>")


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Encoder:
    return Encoder(checkpoint)


def frame(size: tuple[int, int] = EXACT, seed: int = 0, format: str = "PNG") -> bytes:
    image = Image.frombytes("RGB", size, random.Random(seed).randbytes(3 * size[0] * size[1]))
    data = io.BytesIO()
    image.save(data, format)
    return data.getvalue()


def rendered(
    encoder: Encoder, instruction: str, replies: list[tuple[str, bool]], frames: list[bytes]
) -> list[int]:
    """What the tokenizer makes of the whole conversation, the chat template's text with images expanded."""
    messages = []
    for i in range(len(frames)):
        words = [{"type": "text", "text": encoder.dialect.prompt(instruction)}] if i == 0 else []
        messages.append({"role": "user", "content": [*words, {"type": "image"}]})
        if i < len(replies):
            messages.append({"role": "assistant", "content": [{"type": "text", "text": replies[i][0]}]})
    text = encoder.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pieces = text.split("<|image_pad|>")
    placeholders = ["<|image_pad|>" * encoder.picture(data).tokens for data in frames]
    expanded = "".join(piece + image for piece, image in zip(pieces, [*placeholders, ""], strict=True))
    return encoder.tokenizer.encode(expanded, add_special_tokens=False)


@pytest.mark.parametrize(
    "endings", [(), (True,), (False,), (True, True), (True, False), (False, True), (False, False)]
)
def test_turns_joined_are_the_whole_conversation(encoder, endings):
    """`endings`: of each past reply, whether it sampled its end token or was cut at its longest."""
    instruction = 'Click on Tab #2, then on "été".'
    frames = [frame(seed=i, size=(160 + 64 * i, 224)) for i in range(len(endings) + 1)]
    replies = [(f"Action: click(start_box='({3 + i},17)')", ended) for i, ended in enumerate(endings)]
    ids = encoder.first_prompt(instruction, encoder.picture(frames[0]))
    for (text, ended), data in zip(replies, frames[1:], strict=True):
        completion = encoder.completion(text)
        ids += completion if ended else completion[:-1]
        ids += encoder.next_prompt(encoder.picture(data), ended=ended)
    assert ids == rendered(encoder, instruction, replies, frames)


def test_a_completion_ends_and_decodes_to_its_text(encoder):
    text = encoder.dialect.render([Click(x=3, y=217)], EXACT)
    ids = encoder.completion(text)
    assert ids[-1] == encoder.eos
    assert encoder.eos not in ids[:-1]
    assert encoder.decode(ids) == encoder.decode(ids[:-1]) == text
    assert len(ids) == 6  # verb, x, comma, y, close, end
    assert encoder.dialect.parse(encoder.decode(ids), EXACT) == [Click(x=3, y=217)]


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_survives(encoder, text):
    assert encoder.decode(encoder.completion(text)) == text


@given(parts=st.lists(st.sampled_from([*NAMES, "Tab #2", "\ufffc", "\n", "user\n"]), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_an_instruction_cannot_forge_special_tokens(encoder, parts):
    picture = encoder.picture(frame())
    special = set(encoder.tokenizer.convert_tokens_to_ids(list(NAMES)))

    def count(ids: list[int]) -> list[int]:
        return [token for token in ids if token in special]

    ids = encoder.first_prompt("".join(parts), picture)
    assert count(ids) == count(encoder.first_prompt("x", picture))
    assert "".join(parts) in encoder.tokenizer.decode(ids)
    assert not count(encoder.completion("".join(parts))[:-1])


def test_threads_do_not_forge_special_tokens_for_each_other(encoder):
    """Rollouts encode in threads; which text may name special tokens must not leak from one to the other."""
    forged, picture = "".join(NAMES), encoder.picture(frame())
    alone = encoder.first_prompt(forged, picture)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: encoder.first_prompt(forged, picture), range(400)))
    assert all(prompt == alone for prompt in together)


def test_the_constant_part_of_the_prompt_is_one_token(encoder):
    preamble = encoder.tokenizer.encode(encoder.dialect.preamble, add_special_tokens=False)
    assert len(preamble) == 1
    assert preamble[0] in encoder.first_prompt("x", encoder.picture(frame()))
    assert encoder.first_prompt("x", encoder.picture(frame())).count(encoder.image_token) == 5 * 7


def test_what_stands_for_pictures_is_never_sampled_and_the_end_is(encoder):
    ids = encoder.tokenizer.convert_tokens_to_ids
    placeholders = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<|endoftext|>"]
    assert {ids(name) for name in placeholders} == set(encoder.unsampled)
    assert encoder.eos == ids("<|im_end|>") not in encoder.unsampled


@pytest.mark.parametrize(
    "size", [EXACT, (160, 210), (33, 500), (500, 33), (20, 20), (1280, 720), (1001, 999)]
)
@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_pictures_are_what_transformers_makes_of_them(encoder, size, format):
    data = frame(size, seed=size[0], format=format)
    theirs = encoder.images(images=Image.open(io.BytesIO(data)), return_tensors="pt")
    ours = encoder.picture(data)
    assert torch.equal(pixel_values([ours]), theirs["pixel_values"])
    assert ours.grid == tuple(theirs["image_grid_thw"][0].tolist())
    assert ours.tokens == ours.grid[1] * ours.grid[2] / 4


@pytest.mark.parametrize("temporal", [1, 2])
def test_patches_are_the_processors_own(encoder, temporal):
    pixels = torch.randint(256, (64, 96, 3), dtype=torch.uint8)
    theirs, *grid = encoder.images.patchify((pixels / 255).permute(2, 0, 1).numpy(), 16, 2, temporal)
    assert grid == [4, 6]
    plain = Normalization((0.0,) * 3, (1.0,) * 3, temporal)
    ours = pixel_values([Picture(patchify(pixels, 16, 2), (1, 4, 6), 6, plain)])
    assert torch.equal(ours, torch.from_numpy(theirs.copy()))


def test_coordinates_are_in_pixels_of_the_picture_that_the_model_sees(encoder):
    """The processor shrinks a frame of more visual tokens than it allows, and the dialect must know."""
    screen = (1280, 720)
    shown = encoder.picture(frame(screen))
    width, height = shown.grid[2] * 16, shown.grid[1] * 16
    assert (width, height) == smart_resize(*screen, 32, 4 * 32**2, 512 * 32**2) != screen
    centre = encoder.dialect.render([Click(x=640, y=360)], screen)
    assert centre == f"Action: click(start_box='({width // 2},{height // 2})')"
    assert encoder.dialect.parse(centre, screen) == [Click(x=640, y=360)]


@pytest.mark.parametrize("data", [b"", b"not a picture", frame()[:200], b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_a_garbled_frame_is_the_devices_fault(encoder, data):
    with pytest.raises(FaultError) as caught:
        encoder.picture(data)
    assert (caught.value.fault.origin, caught.value.fault.code) == ("device", "bad_frame")


def test_a_folder_without_a_checkpoint_is_refused_in_a_line(tmp_path):
    with pytest.raises(
        InfrastructureError, match=r"no Hugging Face checkpoint at .*save_pretrained"
    ) as caught:
        Encoder(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "processor_config.json"])
def test_a_damaged_checkpoint_is_refused_in_a_line(checkpoint, tmp_path, name):
    folder = tmp_path / "copy"
    shutil.copytree(checkpoint, folder)
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(InfrastructureError, match="cannot be used") as caught:
        Encoder(folder)
    assert "\n" not in str(caught.value)


def test_a_model_without_pictures_is_refused(checkpoint, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(checkpoint, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    with pytest.raises(InfrastructureError, match="image_token_id"):
        Encoder(folder)


def test_pictures_seen_lately_are_kept_within_a_bound(encoder, monkeypatch):
    frames = [frame(seed=100 + seed) for seed in range(3)]
    first = encoder.picture(frames[0])
    assert encoder.picture(frames[0]) is first
    monkeypatch.setattr(encode, "_KEPT_BYTES", 2 * first.patches.nbytes)
    for other in frames[1:]:
        encoder.picture(other)
    assert encoder.picture(frames[1]) is encoder.picture(frames[1])
    again = encoder.picture(frames[0])  # it was the oldest, and had to go
    assert again is not first and torch.equal(again.patches, first.patches)
