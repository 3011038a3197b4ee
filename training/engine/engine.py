"""The contract of an inference engine: tokens and screenshots in, tokens and log-probabilities out.

`training.engine.policy.EnginePolicy` makes a `guiagent.protocols.Policy` of any of them.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch

from guiagent.errors import Fault, FaultError


class Request(NamedTuple):
    """A context to be completed."""

    conversation: str  # names the episode: an engine may keep the KV cache of its last context
    ids: list[int]  # the whole context, placeholders of pictures expanded
    frames: list[bytes]  # the encoded screenshots, in the order of their places in `ids`


class Completion(NamedTuple):
    """A sampled completion.

    `logprobs` are under the policy itself, not under the narrowed distribution that was sampled from
    (`training.engine.sampling`); NaN if the engine does not report them.
    """

    ids: list[int]
    logprobs: list[float]
    versions: list[tuple[int, int]]  # (index of the first token, policy version) of each span; never empty


class EngineStats(NamedTuple):
    """Totals of an engine since it was created, summed over its servers or hosts."""

    busy_s: float = 0.0  # seconds with at least one completion in progress; the mean over servers
    prompt_tokens: int = 0  # length of all contexts
    cached_tokens: int = 0  # tokens of them that were not encoded again
    sampled_tokens: int = 0
    cpu_s: float = 0.0  # CPU seconds of the threads that sample; 0 where they are not known (vLLM)


class Engine(Protocol):
    @property
    def version(self) -> int:
        """The version of the current weights."""
        ...

    @property
    def stats(self) -> EngineStats:
        """Never waits: for an engine on other hosts, the totals that they last reported."""
        ...

    async def generate(self, request: Request) -> Completion:
        """Sample a completion.

        Raises FaultError (origin "policy") if the engine fails, InfrastructureError if it can never succeed.
        """
        ...

    def forget(self, conversation: str) -> None:
        """End a conversation: drop what was kept for it."""
        ...

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Take new weights, by the names of the checkpoint; tokens sampled from then on have this `version`.

        Blocks until they are loaded and verified: call it in a thread. Nobody changes `state` afterwards: an
        engine may keep it. Raises InfrastructureError if it did not arrive whole; the old weights stay in use
        then.
        """
        ...

    def close(self) -> None: ...


def not_finite(whose: str) -> FaultError:
    """The FaultError for NaN or infinite logits, from which no token can be sampled."""
    return FaultError(Fault("policy", "not_finite", f"{whose}'s model gave logits that are no numbers"))
