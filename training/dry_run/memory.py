"""Memory of a trainer on its GPU over a step, in bytes: pure functions of a model's sizes.

What a layer keeps for its backward pass follows from the model's code: numbers of a token, `h` between two
layers, `a` queries, `k` keys, `f` in the MLP. tests/training/test_memory.py holds it against traces of the
7-8 B architectures under PyTorch's `FakeTensorMode`. Not counted: CUDA's own context, and what NCCL and the
allocator keep beside, for which `RESERVE` is left on every GPU.
"""

from typing import NamedTuple

from training.config import OptimizationConfig
from training.model.architecture import Architecture, Layers
from training.model.feature_cache import KEPT_TOKENS
from training.model.forward import LOGITS_AT_ONCE

RESERVE = 2 * 2**30


class Pass(NamedTuple):
    """The longest forward and backward pass of a run."""

    tokens: int  # in the row
    sampled: int  # of the row, whose logits are computed
    shown: int  # of the row, tokens of screenshots
    screen: int  # tokens of one screenshot


class Learner(NamedTuple):
    """How a trainer computes: so many `ranks` share the learner."""

    update: OptimizationConfig
    ranks: int = 1
    reference: bool = False  # a frozen copy of the model is beside it
    entropy: bool = False  # the loss has an entropy term

    @property
    def size(self) -> int:
        """Bytes of a number in a product of matrices."""
        return 2 if self.update.precision == "bfloat16" else 4

    @property
    def mixed(self) -> bool:
        """Whether float32 weights are cast for each product (autocast)."""
        return self.size == 2 and self.ranks == 1 and self.update.lora is None

    @property
    def looks(self) -> bool:
        """Whether the vision tower is trained."""
        return self.update.lora is None and not self.update.freeze_vision

    def stream(self, layers: Layers) -> int:
        """Bytes of a number between two layers: embeddings that are not cast stay float32."""
        return 4 if self.size == 4 or (self.mixed and not layers.fused) else 2


class Held(NamedTuple):
    """What a trainer holds all the time."""

    weights: int
    gradients: int
    moments: int
    others: int  # a reference, and features of screenshots of a frozen tower

    @property
    def total(self) -> int:
        return sum(self)


class Phase(NamedTuple):
    """What a trainer holds beside, at one point of a pass."""

    name: str
    kept: int  # activations of all layers, for the backward pass
    layer: int  # what one layer computes
    logits: int
    gathered: int  # whole layers' weights and gradients under FSDP, or bfloat16 copies of weights

    @property
    def total(self) -> int:
        return self.kept + self.layer + self.logits + self.gathered


def held(sizes: Architecture, learner: Learner, seen: int = KEPT_TOKENS) -> Held:
    """Return a trainer's share of weights, gradients and moments: float32 for what is trained.

    With adapters the other weights stay as they were saved. A frozen tower's features are kept of the
    screenshots `seen` so far, in tokens; a run of some length fills what there is room for.
    """
    update, ranks = learner.update, learner.ranks
    if update.lora is not None:
        trained = sizes.adapters(update.lora.rank)
        weights = sizes.itemsize * sizes.parameters + 4 * trained
    else:
        trained = sizes.parameters - (sizes.tower if update.freeze_vision else 0)
        weights = 4 * sizes.parameters
    moments = (2 if update.optimizer == "adamw8bit" else 8) * trained
    others = 4 * sizes.parameters if learner.reference and update.lora is None else 0
    if ranks == 1 and not learner.looks:
        others += min(seen, KEPT_TOKENS) * sizes.text.hidden * (1 + sizes.deepstack) * learner.size
    return Held(weights // ranks, 4 * trained // ranks, moments // ranks, others // ranks)


def phases(sizes: Architecture, learner: Learner, longest: Pass) -> list[Phase]:
    """Return what a pass holds at each point where that may be most; the largest is its peak."""
    text, vision, patches = sizes.text, sizes.vision, longest.shown * sizes.merge
    seen = 0
    alone = learner.ranks == 1 and not learner.looks  # a frozen tower encodes one screenshot after the other
    looking = (longest.screen * sizes.merge if alone else patches) * saved(vision, learner)
    if learner.looks:
        seen = patches * (_kept(vision, learner) + _ends_of_tower(sizes, learner))
        looking = patches * _backward(vision, learner)
    read = seen + longest.tokens * _kept(text, learner) + _entry(sizes, learner, longest)
    last_norm = longest.tokens * 8 * text.hidden
    drawn = logits(longest.sampled, sizes.vocabulary, learner)
    learning = longest.tokens * _backward(text, learner)
    return [
        Phase("the vision tower", seen, looking, 0, _gathered(sizes, vision, learner)),
        Phase("the logits", read + last_norm, 0, drawn, _copies(sizes, learner)),
        Phase("the text layers", read, learning, 0, _gathered(sizes, text, learner)),
    ]


def peak(sizes: Architecture, learner: Learner, longest: Pass) -> Phase:
    """Return the point of a pass at which most is held."""
    return max(phases(sizes, learner, longest), key=lambda phase: phase.total)


def saved(layers: Layers, learner: Learner) -> int:
    """Return the bytes of a token that one layer keeps for its backward pass, less its input."""
    h, a, k, f, size = layers.hidden, layers.queries, layers.keys, layers.inner, learner.size
    attention = size * (6 * a if layers.fused else 2 * a + 2 * k) + 4 * layers.heads
    mlp = size * f * (4 if layers.gated else 2)
    if layers.layer_norms:
        norms = 12 * h
    elif size == 4:
        norms = 20 * h
    else:
        casts = 0 if not learner.mixed else 2 * h if layers.fused else 6 * h  # each product casts its input
        norms = 16 * h + casts
    of_heads = (8 if size == 4 else 6) * (a + k) if layers.head_norms else 0
    if learner.update.lora is not None and not layers.fused:
        # Norms and products of frozen weights keep nothing; each adapter keeps its input.
        norms, mlp = 8 * h, size * 3 * f
        of_heads = 4 * (a + k) if layers.head_norms else 0
        attention += size * (5 * h + a + f)
    return attention + mlp + norms + of_heads


def logits(sampled: int, vocabulary: int, learner: Learner) -> int:
    """Return the most that logits of so many tokens hold, forward or backward.

    Backward there are gradients of all beside them; either way one part in float32, several times over.
    """
    numbers = sampled * vocabulary
    part = 4 * min(numbers, LOGITS_AT_ONCE)
    forward = learner.size * numbers + 5 * part
    return max(forward, 2 * learner.size * numbers + (5 if learner.entropy else 3) * part)


def _kept(layers: Layers, learner: Learner) -> int:
    """Return the bytes of a token that all layers keep until the backward pass reaches them."""
    between = learner.stream(layers) * layers.hidden
    if learner.update.gradient_checkpointing:
        return layers.layers * between
    whole = saved(layers, learner) + (between if learner.stream(layers) == 4 else 0)
    return layers.layers * whole


def _backward(layers: Layers, learner: Learner) -> int:
    """Return the bytes of a token while one layer goes backward, computed anew where it was not kept."""
    gradients = (2 if layers.gated else 1) * learner.size * layers.inner
    gradients += 2 * learner.stream(layers) * layers.hidden
    return gradients + (saved(layers, learner) if learner.update.gradient_checkpointing else 0)


def _ends_of_tower(sizes: Architecture, learner: Learner) -> int:
    """Return the bytes of a patch outside of the tower's layers: its pixels, and what the mergers keep."""
    mergers = 6 * learner.size * sizes.vision.hidden * (1 + sizes.deepstack)
    return (4 + learner.size) * sizes.patch + mergers


def _entry(sizes: Architecture, learner: Learner, longest: Pass) -> int:
    """Return the bytes of what the text layers begin with, and of the screenshots put into it."""
    hidden, stream = sizes.text.hidden, learner.stream(sizes.text)
    features = longest.shown * hidden * learner.size * (1 + sizes.deepstack)
    return longest.tokens * hidden * 2 * stream + features


def _gathered(sizes: Architecture, layers: Layers, learner: Learner) -> int:
    """Return the bytes of weights that are whole while a layer goes backward.

    FSDP has two layers whole, one of them ahead, with a gradient in float32 that is being reduced; embedding
    and head stay whole with their gradients. Without it there are bfloat16 copies of float32 weights.
    """
    if learner.ranks == 1:
        if not learner.mixed:
            return 0
        return 2 * (layers.parameters if learner.update.gradient_checkpointing else sizes.parameters)
    if learner.update.lora is not None:
        return sizes.itemsize * (sizes.ends + 2 * layers.parameters)
    return 2 * learner.size * sizes.ends + (3 * learner.size + 4) * layers.parameters


def _copies(sizes: Architecture, learner: Learner) -> int:
    """Return the same at the end of the forward pass: autocast has cast all weights by then."""
    if learner.mixed:
        return 2 * sizes.parameters
    return _gathered(sizes, sizes.text, learner)
