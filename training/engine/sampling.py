"""Draw tokens from logits, narrowed by top-p and penalties, with log-probabilities under the policy itself.

The policy, to a learner, is `softmax(logits / temperature)` over the tokens that may be sampled at all: what
`training.model.forward` scores again with later weights. A frequency penalty and `top_p` narrow what is
drawn, not the policy: the log-probability that is kept is the policy's own, before both. So the ratio of
later weights to these is consistent: it is 1 while the weights are the same, whatever the narrowing, and its
clip bounds how far they have moved. The ratio does not undo the narrowing itself: tokens are drawn from
another distribution than the one whose gradient is taken, as in all training of language models on nucleus
samples.

vLLM reports log-probabilities under the narrowed distribution. Their ratio would not begin at 1, so they are
not kept: the ratio is then to the policy at the start of the optimiser step, 1 for every token, and nothing
is clipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sampling:
    """The settings by which an engine draws completions.

    `temperature` 0 is greedy. `top_p` and `frequency_penalty` change what is drawn; the policy, and so the
    log-probabilities, stay as they are.
    """

    temperature: float = 1.0
    top_p: float = 1.0  # draw from the smallest set of likeliest tokens that together have this probability
    # Subtracted from a token's logit for each time that it is in the completion so far, before the
    # temperature (vLLM's order, which is OpenAI's).
    frequency_penalty: float = 0.0
    max_new_tokens: int = 32  # largest number of tokens in a completion

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def narrows(self) -> bool:
        """Whether tokens are drawn from another distribution than the policy's own."""
        return self.top_p != 1 or self.frequency_penalty != 0


def penalised(logits: Tensor, completions: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """[rows, vocabulary]: logits minus `penalty` for each time that a token is in its row's completion."""
    if penalty == 0:
        return logits
    counts = torch.zeros_like(logits)
    for row, ids in zip(counts, completions, strict=True):
        row += torch.bincount(torch.tensor(ids, dtype=torch.long, device=logits.device), minlength=len(row))
    return logits - penalty * counts


def nucleus(logprobs: Tensor, top_p: float) -> Tensor:
    """[rows, vocabulary]: log-probabilities, -inf outside each row's nucleus; not normalised.

    The nucleus is the smallest set of likeliest tokens whose probabilities sum to at least `top_p`.

    Source: nucleus sampling, arXiv 1904.09751.
    """
    if top_p == 1:
        return logprobs
    ordered, order = logprobs.sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # probability of all likelier tokens
    return logprobs.masked_fill((before >= top_p).scatter(-1, order, before >= top_p), -torch.inf)


def draw(
    logits: Tensor,
    completions: Sequence[Sequence[int]],
    sampling: Sampling,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Draw [rows] tokens; return them and their [rows] log-probabilities under the policy.

    `logits` [rows, vocabulary] are -inf for tokens that are never sampled; `completions` are the tokens that
    each row has sampled so far. Greedy sampling puts all mass on one token: its log-probability is 0.
    """
    scores = penalised(logits, completions, sampling.frequency_penalty)
    if sampling.greedy:
        tokens = scores.argmax(dim=-1)
        return tokens, torch.zeros(tokens.shape)
    policy = torch.log_softmax(logits / sampling.temperature, dim=-1)
    drawn = policy if scores is logits else torch.log_softmax(scores / sampling.temperature, dim=-1)
    tokens = torch.multinomial(nucleus(drawn, sampling.top_p).exp(), 1, generator=generator)
    return tokens[:, 0], policy.gather(-1, tokens)[:, 0]
