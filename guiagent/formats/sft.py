"""Chat messages for supervised fine-tuning, an episode a line: what OpenAI's API takes, TRL, LLaMA-Factory.

Each line of `train.jsonl` has `messages`: the dialect's system text if it has one, its prompt with the first
screenshot, and then replies and screenshots in turn. Pictures are `image_url` parts: data URLs, or relative
paths of files in `images/`. A reply without a valid action has `weight` 0, as OpenAI's fine-tuning writes
what is shown and not learned. The line's other keys are those of `About`.

In: the same, and `{"type": "image"}` parts, or `<image>` in a text, with the paths in the line's `images`.
Where the line names no instruction, it is the first user turn's text without the dialect's own prompt.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from guiagent.dialects import Dialect
from guiagent.dialects.prompts import messages
from guiagent.errors import UsageError
from guiagent.formats import pictures
from guiagent.formats.about import About
from guiagent.formats.entering import Entering, Reading, Turn, objects, reply
from guiagent.formats.leaving import Leaving, Wish
from guiagent.formats.pictures import Album, Picture
from guiagent.types import Observation, PolicyOutput

_IMAGES = "images"
_PLACEHOLDER = "<image>"  # LLaMA-Factory's
_MUTE = "the file gives it the weight 0"
_MARK = "\0"  # where the instruction stands in a prompt


class _Past(NamedTuple):
    observation: Observation
    output: PolicyOutput


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write `train.jsonl`, and the pictures beside it unless they are wanted in it."""
    assert wish.dialect is not None
    with (folder / "train.jsonl").open("wb") as file:
        for one in episodes:
            file.write(msgspec.json.encode(_line(one, folder, wish.dialect, wish.embed)) + b"\n")


def _line(one: Leaving, folder: Path, dialect: Dialect, embed: bool) -> dict[str, Any]:
    def address(hash: str) -> str:
        data = one.frame(hash)
        return (
            pictures.data_url(data) if embed else f"{_IMAGES}/{pictures.keep(folder / _IMAGES, hash, data)}"
        )

    told = one.trajectory
    past = [
        _Past(Observation(step.width, step.height, hash=step.frame), PolicyOutput(words))
        for step, words in zip(told.steps, one.words, strict=True)
    ]
    chat = messages(dialect, told.instruction, past[:-1], past[-1].observation, image=_part(address))
    chat.append({"role": "assistant", "content": [{"type": "text", "text": one.words[-1]}]})
    replies = [message for message in chat if message["role"] == "assistant"]
    for message, step in zip(replies, told.steps, strict=True):
        message["weight"] = int(step.policy.error is None)
    for message in chat:  # always a list, as a table wants
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    about = About.of(one.id, told, address(told.final_frame) if told.final_frame else None)
    return {"messages": chat, **msgspec.to_builtins(about)}


def _part(address: Callable[[str], str]) -> Callable[[Observation], dict[str, Any]]:
    return lambda shown: {"type": "image_url", "image_url": {"url": address(shown.hash)}}


# -- in ------------------------------------------------------------------------------------------------------


class _Url(msgspec.Struct):
    url: str


class _Part(msgspec.Struct):
    type: Literal["text", "image", "image_url"]
    text: str | None = None
    image_url: _Url | str | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    weight: int = 1


class _Line(About, frozen=True, kw_only=True):
    messages: list[_Message]
    images: list[str] | None = None


def read(path: Path, reading: Reading) -> Iterator[Entering]:
    """Yield the episodes of a file, or of a folder's JSONL files. Raises UsageError for what is wrong."""
    for at, root, line in objects(path, _Line, ".jsonl"):
        try:
            yield _episode(at, line, root, reading.dialect)
        except UsageError as error:
            raise UsageError(f"{at}: {error}") from None


def _episode(at: str, line: _Line, root: Path, dialect: Dialect) -> Entering:
    beside = iter(line.images or ())
    album = Album(root)
    turns: list[Turn] = []
    said: list[str] = []
    shown: Picture | None = None
    for message in line.messages:
        parts = _parts(message.content, placed=line.images is not None)
        text = "".join(part.text or "" for part in parts)
        match message.role:
            case "user":
                for part in parts:
                    shown = _picture(part, beside, album) or shown
                said.append(text)
            case "assistant" if shown is not None:
                learned = (
                    reply(text, dialect, shown.size) if message.weight else PolicyOutput(text, error=_MUTE)
                )
                turns.append(Turn(shown, learned))
    final = album.picture(line.final) if line.final else None
    instruction = line.instruction or _instruction(said, dialect)
    return Entering(at, msgspec.structs.replace(line, instruction=instruction), turns, final)


def _parts(content: str | list[_Part], placed: bool) -> list[_Part]:
    """The parts of a message; with `placed`, a text's own placeholders are its pictures."""
    if not isinstance(content, str):
        return content
    texts = content.split(_PLACEHOLDER) if placed else [content]
    return [_Part("image")] * (len(texts) - 1) + [_Part("text", "".join(texts))]


def _picture(part: _Part, beside: Iterator[str], album: Album) -> Picture | None:
    match part:
        case _Part(type="text"):
            return None
        case _Part(type="image_url", image_url=_Url(url=url)) | _Part(type="image_url", image_url=str(url)):
            return album.picture(url)
        case _:
            if (name := next(beside, None)) is None:
                raise UsageError("there are more image parts than images")
            return album.picture(name)


def _instruction(said: Sequence[str], dialect: Dialect) -> str:
    """What the first user turn says, without the words that the dialect puts around an instruction."""
    before, _, after = dialect.prompt(_MARK).partition(_MARK)
    return (said[0] if said else "").removeprefix(before).removesuffix(after).strip()
