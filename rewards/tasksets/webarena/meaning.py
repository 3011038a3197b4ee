"""Ask a model whether an answer means the same as a reference: WebArena's `fuzzy_match`.

The prompt is ours. The answer is the agent's, so it is fenced off like everything that is judged.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from guiagent.config import load
from guiagent.errors import InfrastructureError
from rewards.judges.config import ServerConfig
from rewards.judges.prompts import HOSTILE, fenced
from rewards.judges.replies import read_score

if TYPE_CHECKING:
    from rewards.judges.model_server import ModelServer

_LONGEST = 4000  # characters of a question, a reference or an answer
_SYSTEM = f"""\
You compare an answer to a question with a reference that is known to be right. It is right if it says what
the reference says: in other words, with other units, or with more beside it, as long as nothing in it
contradicts the reference. An answer that leaves out a part of the reference is wrong.

{HOSTILE}

Think in a few sentences. Then end with one line by itself, in exactly one of these forms:
SCORE: 1
SCORE: 0
SCORE: unknown
1 means that the answer is right, 0 that it is not."""


class ModelMeaning:
    """The model of a server as one who compares answers; `name` is its address and model, for the record."""

    def __init__(self, config: ServerConfig, server: "ModelServer") -> None:
        self.name = f"{config.url}#{config.model}"
        self._server = server

    async def __call__(self, question: str, reference: str, answer: str) -> float | None:
        """1 or 0; None if the model does not know, or cannot be understood. Raises FaultError (judge)."""
        parts = (("question", question), ("reference", reference), ("answer", answer))
        text = "\n".join(fenced(tag, value[:_LONGEST]) for tag, value in parts)
        messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": text}]
        value = read_score((await self._server.complete(messages)).texts[0]).value
        return value if value in (0.0, 1.0) else None


def model_meaning(file: Path) -> ModelMeaning:
    """Open the model that a TOML file names by `url` and `model`; its other keys are those of a server.

    Raises UsageError for a bad file, InfrastructureError if the package openai is not installed.
    """
    try:
        from rewards.judges.model_server import ModelServer
    except ModuleNotFoundError as error:
        raise InfrastructureError(f"{error.name} is not installed: pip install 'guiagent[judge]'") from None
    config = load(ServerConfig, file)
    return ModelMeaning(config, ModelServer(config))
