"""An episode so far as chat messages, for model servers and chat templates alike."""

from collections.abc import Callable, Sequence
from typing import Any

from guiagent.dialects import Dialect
from guiagent.protocols import Turn
from guiagent.types import Observation

Message = dict[str, Any]


def image_placeholder(observation: Observation) -> dict[str, Any]:
    """The content part that a Hugging Face chat template turns into image tokens."""
    return {"type": "image"}


def messages(
    dialect: Dialect,
    instruction: str,
    history: Sequence[Turn],
    observation: Observation,
    *,
    image: Callable[[Observation], dict[str, Any]] = image_placeholder,
    max_images: int | None = None,
) -> list[Message]:
    """The conversation up to `observation`, whose reply is to be sampled next.

    The first user turn is the prompt and the first screenshot, every later one a screenshot; the assistant's
    turns are its texts as sampled. With more than `max_images` screenshots the oldest are left out and every
    text stays, which is how UI-TARS is run (with five). None keeps them all: every prompt is then a prefix of
    the next one, and a KV cache can be kept.

    `image` makes the content part of an observation's frame. Pictures that belong to the instruction stand
    between it and the first screenshot, and are never left out.
    """
    observations = [*(turn.observation for turn in history), observation]
    oldest = 0 if max_images is None else max(0, len(observations) - max_images)
    contents = [[image(shown)] if i >= oldest else [] for i, shown in enumerate(observations)]
    first = observations[0]
    given = [
        image(Observation(first.width, first.height, media_type=one.media_type, frame=one.data))
        for one in first.given
    ]
    contents[0][:0] = [{"type": "text", "text": dialect.prompt(instruction)}, *given]

    conversation: list[Message] = []
    if dialect.system:
        conversation.append({"role": "system", "content": dialect.system})
    replies = [*(turn.output.text for turn in history), None]
    for content, reply in zip(contents, replies, strict=True):
        if content:
            conversation.append({"role": "user", "content": content})
        if reply is not None:
            conversation.append({"role": "assistant", "content": [{"type": "text", "text": reply}]})
    return conversation
