"""The contract of an inference engine: tokens and screenshots in, tokens and log-probabilities out.

`training.engine.policy.EnginePolicy` makes a `guiagent.protocols.Policy` of any of them.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch


class Request(NamedTuple):
    """A context that waits for its next completion."""

    conversation: str  # names the episode: an engine may keep the KV cache of its last context
    ids: list[int]  # the whole context, placeholders of pictures expanded
    frames: list[bytes]  # the encoded screenshots, in the order of their places in `ids`


class Completion(NamedTuple):
    """What was sampled. `logprobs` are NaN where the engine does not report them."""

    ids: list[int]
    logprobs: list[float]
    versions: list[tuple[int, int]]  # (index of the first token, policy version) of each span; never empty


class Engine(Protocol):
    @property
    def version(self) -> int:
        """Of the weights that sample now."""
        ...

    async def generate(self, request: Request) -> Completion:
        """FaultError (origin "policy") where the engine stayed away; InfrastructureError where it never
        can."""
        ...

    def forget(self, conversation: str) -> None:
        """The conversation ended: drop what was kept for it."""
        ...

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Take new weights, by the names of the checkpoint; completions from now on carry `version`.

        Blocks until they are there, verified: call it in a thread. Raises InfrastructureError where they did
        not arrive whole; the old ones then go on.
        """
        ...

    def close(self) -> None: ...
