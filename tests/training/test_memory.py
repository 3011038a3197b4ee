"""Estimates of memory against traces of the 7-8 B architectures, without their weights (`FakeTensorMode`).

A fake tensor has a shape and no memory: layers of the real sizes run forward and backward on 8,192 tokens,
and `MemTracker` counts what they would hold. Attention is PyTorch's variable-length kernel, as on a GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig as PeftLora
from peft import inject_adapter_in_model
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn.attention.varlen import varlen_attn
from transformers import AutoConfig, PretrainedConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VLDecoderLayer,
    Qwen2_5_VLTextModel,
    Qwen2_5_VLVisionBlock,
)
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer, Qwen3VLVisionBlock

from tests.support.architectures import qwen3_8b, qwen25_7b
from training.config import LoraConfig, OptimizationConfig, UpdateConfig
from training.dry_run import memory
from training.dry_run.memory import Learner, Pass
from training.engine.kv_cache import KVCache
from training.inputs.encoder import Encoder
from training.inputs.layout import Layout
from training.model import forward, lora, packed_attention, vision_attention
from training.model.architecture import Architecture
from training.model.feature_cache import KEPT_TOKENS
from training.model.network import Checkpoints, Network, Placement

LENGTH = 8192
FAMILIES: dict[str, Callable[[], PretrainedConfig]] = {"qwen2.5": qwen25_7b, "qwen3": qwen3_8b}
LAYERS: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "qwen2.5": (Qwen2_5_VLDecoderLayer, Qwen2_5_VLVisionBlock),
    "qwen3": (Qwen3VLTextDecoderLayer, Qwen3VLVisionBlock),
}
HALF = OptimizationConfig(precision="bfloat16", gradient_checkpointing=True)
SHARDED, MIXED = Learner(HALF, ranks=8), Learner(HALF)
WITH_ADAPTERS = Learner(HALF.model_copy(update={"lora": LoraConfig(rank=16)}))


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention takes the kernel that it has on a GPU."""
    for module in (packed_attention, vision_attention):
        monkeypatch.setattr(module, "varlen_kernel", lambda query, sequences: varlen_attn)


@contextmanager
def fake(dtype: torch.dtype) -> Iterator[None]:
    """Fake tensors; weights that are made within have `dtype`."""
    with FakeTensorMode():
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


def sizes(family: str) -> Architecture:
    return Architecture.of(FAMILIES[family]())


def cast(learner: Learner) -> torch.dtype:
    """The precision of weights while they compute, before autocast."""
    return torch.float32 if learner.mixed else torch.bfloat16


def text_inputs(config: Any, dtype: torch.dtype, length: int = LENGTH) -> dict[str, Any]:
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    turned = torch.randn(1, length, size, dtype=dtype)
    starts = torch.tensor([0, length], dtype=torch.int32)
    return {"position_embeddings": (turned, turned), "layout": Layout((length,), starts, None, None)}


def text_layer(family: str, learner: Learner) -> tuple[nn.Module, Tensor, dict[str, Any]]:
    config = FAMILIES[family]()
    config.text_config._attn_implementation = "packed"
    layer = LAYERS[family][0](config.text_config, 0)
    shown = torch.randn(1, LENGTH, config.text_config.hidden_size, dtype=cast(learner), requires_grad=True)
    return layer, shown, text_inputs(config.text_config, cast(learner))


def vision_layer(family: str, learner: Learner) -> tuple[nn.Module, Tensor, dict[str, Any]]:
    config = FAMILIES[family]().vision_config
    config._attn_implementation = "guiagent_flash_segments"
    layer = LAYERS[family][1](config)
    shown = torch.randn(LENGTH, config.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    turned = torch.randn(LENGTH, config.hidden_size // config.num_heads, dtype=torch.float32)
    starts = torch.tensor([0, LENGTH], dtype=torch.int32)
    more = {"cu_seqlens": starts, "max_seqlen": LENGTH, "position_embeddings": (turned, turned)}
    return layer, shown, more


def called(layer: Callable[..., Any], shown: Tensor, more: dict[str, Any]) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(shown, **more)
    return out[0] if isinstance(out, tuple) else out


def saved_bytes(run: Callable[[], Tensor], apart: set[int], wide: int) -> int:
    """Bytes that `run` keeps for its backward pass: tensors of a row for each token, none of `apart`."""
    found: dict[int, int] = {}
    kept = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in apart and wide in tensor.shape:
            found[storage._cdata] = storage.nbytes()
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(found.values())


def peak_bytes(module: nn.Module, shown: Tensor, run: Callable[[], Tensor]) -> int:
    """The most that a forward and a backward pass hold beside weights and gradients of weights."""
    tracker = MemTracker()
    tracker.track_external(module, shown)
    with tracker:
        out = run()
        out.backward(torch.ones_like(out))
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    counted = {str(kind).rpartition(".")[2]: number for kind, number in peak.items()}
    return counted["Total"] - counted["PARAM"] - counted["GRAD"] - shown.untyped_storage().nbytes()


@pytest.mark.parametrize(
    ("family", "parameters", "token"), [("qwen2.5", 8_292_166_656, 57_344), ("qwen3", 8_767_123_696, 147_456)]
)
def test_parameters_and_kv_bytes_are_exactly_the_published_models(
    family: str, parameters: int, token: int
) -> None:
    found = sizes(family)
    assert found.parameters == parameters
    layers = found.text.layers * found.text.parameters
    assert layers + found.tower + found.ends == parameters
    size = found.text.queries // found.text.heads
    heads = found.text.keys // size
    cache = KVCache(
        found.text.layers,
        heads,
        size,
        dtype=torch.bfloat16,
        device=torch.device("meta"),
        max_bytes=8 * 1024 * token,
    )
    assert cache.take("a", 512) is not None
    held = sum(tensor.nbytes for tensor in (*cache.keys, *cache.values))
    slots, _, columns, _ = cache.keys[0].shape
    assert found.kv_bytes() == token == held // (slots * columns)
    assert [found.kv_bytes(heads * n) * heads for n in (1, 2)] == [token, token]  # more GPUs repeat heads
    assert found.kv_bytes(2) == token // 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learner", [SHARDED, MIXED], ids=["bfloat16", "autocast"])
def test_a_text_layer_keeps_and_peaks_at_what_is_estimated(family: str, learner: Learner) -> None:
    """What is kept within 1 %, and the peak; at most 5 % more where autocast has copies of weights."""
    found = sizes(family)
    with fake(cast(learner)):
        layer, shown, more = text_layer(family, learner)
        apart = {p.untyped_storage()._cdata for p in (*layer.parameters(), shown)}
        traced = saved_bytes(lambda: called(layer, shown, more), apart, LENGTH)
        most = peak_bytes(layer, shown, lambda: called(layer, shown, more))
    assert LENGTH * memory.saved(found.text, learner) == pytest.approx(traced, rel=0.01)
    copies = 2 * found.text.parameters if learner.mixed else 0
    estimate = LENGTH * memory._backward(found.text, learner) + copies
    assert 0.99 * most <= estimate <= (1.05 if learner.mixed else 1.01) * most


@pytest.mark.parametrize("learner", [SHARDED, MIXED], ids=["bfloat16", "autocast"])
@pytest.mark.parametrize(("family", "over"), [("qwen2.5", 0.02), ("qwen3", 0.25)])
def test_a_vision_layer_is_never_underestimated(family: str, over: float, learner: Learner) -> None:
    """Qwen3's LayerNorm stays in bfloat16 under the CPU's autocast; on a GPU it is float32, as estimated."""
    found = sizes(family)
    with fake(cast(learner)):
        layer, shown, more = vision_layer(family, learner)
        apart = {p.untyped_storage()._cdata for p in (*layer.parameters(), shown)}
        traced = saved_bytes(lambda: called(layer, shown, more), apart, LENGTH)
        most = peak_bytes(layer, shown, lambda: called(layer, shown, more))
    estimate = LENGTH * memory.saved(found.vision, learner)
    assert 0.98 * traced <= estimate <= (1 + over) * traced
    copies = 2 * found.vision.parameters if learner.mixed else 0
    estimate = LENGTH * memory._backward(found.vision, learner) + copies
    assert 0.98 * most <= estimate <= (1 + over) * most


@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_stack_of_layers_keeps_what_is_estimated(checkpointing: bool) -> None:
    """Four layers, with and without gradient checkpointing: within 2 % less and 5 % more."""
    config = qwen25_7b().text_config
    config.num_hidden_layers, config._attn_implementation = 4, "packed"
    config.layer_types = config.layer_types[:4]
    update = HALF.model_copy(update={"gradient_checkpointing": checkpointing})
    learner = Learner(update, ranks=8)
    text = sizes("qwen2.5").text._replace(layers=4)
    with fake(torch.bfloat16):
        model = Qwen2_5_VLTextModel(config).train()
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": False})
        shown = torch.randn(1, LENGTH, text.hidden, requires_grad=True)
        more = text_inputs(config, torch.bfloat16)
        positions = torch.arange(LENGTH).view(1, 1, -1).expand(3, 1, -1)
        most = peak_bytes(
            model,
            shown,
            lambda: (
                model(
                    inputs_embeds=shown, position_ids=positions, layout=more["layout"], use_cache=False
                ).last_hidden_state
            ),
        )
    estimate = LENGTH * (memory._kept(text, learner) + memory._backward(text, learner))
    if checkpointing:
        estimate -= shown.nbytes  # the first layer's input, which is kept too, is not in the trace
    assert 0.98 * most <= estimate <= 1.05 * most


@pytest.mark.parametrize("learner", [WITH_ADAPTERS], ids=["lora"])
def test_adapters_keep_what_is_estimated(learner: Learner) -> None:
    """Within 3 %."""
    config = qwen25_7b()
    config.text_config._attn_implementation = "packed"
    with torch.device("meta"):
        layer = Qwen2_5_VLDecoderLayer(config.text_config, 0).bfloat16().requires_grad_(False)
        holder = nn.Module()
        holder.language_model = nn.Module()
        holder.language_model.layers = nn.ModuleList([layer])
        inject_adapter_in_model(PeftLora(r=16, target_modules=lora._LINEARS), holder)
    trained = {name: p.requires_grad for name, p in layer.named_parameters()}
    adapters = sum(p.numel() for name, p in layer.named_parameters() if trained[name])
    found = sizes("qwen2.5")
    assert found.adapters(16) == found.text.layers * adapters
    with fake(torch.bfloat16):
        weights = {
            name: torch.empty(
                p.shape, dtype=torch.float32 if trained[name] else torch.bfloat16
            ).requires_grad_(trained[name])
            for name, p in layer.named_parameters()
        }
        shown = torch.randn(1, LENGTH, found.text.hidden, requires_grad=True)
        more = text_inputs(config.text_config, torch.bfloat16)
        apart = {p.untyped_storage()._cdata for p in (*weights.values(), shown)}
        run = lambda x, **rest: torch.func.functional_call(layer, weights, (x,), rest)  # noqa: E731
        traced = saved_bytes(lambda: called(run, shown, more), apart, LENGTH)
    assert LENGTH * memory.saved(found.text, learner) == pytest.approx(traced, rel=0.03)


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("sampled", [800, 8000])
def test_logits_are_estimated_from_above(sampled: int, entropy: bool) -> None:
    """As few fit at once and as many part by part: by at most a quarter."""
    found = sizes("qwen2.5")
    with fake(torch.bfloat16):
        head = nn.Linear(found.text.hidden, found.vocabulary, bias=False)
        shown = torch.randn(sampled, found.text.hidden, requires_grad=True)
        ids = torch.zeros(sampled, dtype=torch.long)

        def run() -> Tensor:
            logprobs, entropies = forward.drawn(head(shown), ids, [1, 2], 0.7, entropy)
            return logprobs.sum() + (entropies.sum() if entropy else 0)

        most = peak_bytes(head, shown, run)
    learner = SHARDED._replace(entropy=entropy)
    estimate = memory.logits(sampled, found.vocabulary, learner)
    assert 0.95 * most <= estimate <= 1.25 * most


def test_what_is_trained_has_gradients_and_moments_and_what_is_not_stays_as_it_was_saved() -> None:
    found = sizes("qwen2.5")
    all_of_it = found.parameters
    assert memory.held(found, Learner(HALF))[:3] == (4 * all_of_it, 4 * all_of_it, 8 * all_of_it)
    assert memory.held(found, Learner(HALF, ranks=8))[:3] == tuple(n * all_of_it // 8 for n in (4, 4, 8))
    frozen = HALF.model_copy(update={"freeze_vision": True})
    assert memory.held(found, Learner(frozen, ranks=8)).gradients == 4 * (all_of_it - found.tower) // 8
    eight_bit = HALF.model_copy(update={"optimizer": "adamw8bit"})
    assert memory.held(found, Learner(eight_bit)).moments == 2 * all_of_it
    assert memory.held(found, Learner(HALF, ranks=2, reference=True)).others == 4 * all_of_it // 2
    adapted = memory.held(found, WITH_ADAPTERS)
    assert adapted.weights == 2 * all_of_it + 4 * 40_370_176
    assert (adapted.gradients, adapted.moments) == (4 * 40_370_176, 8 * 40_370_176)


def test_features_of_a_frozen_tower_are_kept_of_what_was_seen_up_to_a_bound() -> None:
    found = sizes("qwen3")
    one = found.text.hidden * (1 + found.deepstack) * 2
    kept = [
        memory.held(found, WITH_ADAPTERS, seen).others for seen in (0, 1000, KEPT_TOKENS, 2 * KEPT_TOKENS)
    ]
    assert kept == [0, 1000 * one, KEPT_TOKENS * one, KEPT_TOKENS * one]
    assert memory.held(found, WITH_ADAPTERS).others == KEPT_TOKENS * one


@pytest.mark.parametrize("rank", [None, 4])
def test_a_learner_that_is_opened_holds_that(rank: int | None, checkpoint: Path) -> None:
    """The small policy, really opened, against its estimate."""
    update = UpdateConfig(lora=None if rank is None else LoraConfig(rank=rank))
    network = Network(Checkpoints(checkpoint, checkpoint), Encoder(checkpoint), update, Placement())
    weights = {p.untyped_storage()._cdata: p.untyped_storage().nbytes() for p in network.model.parameters()}
    trained = sum(p.nbytes for p in network.model.parameters() if p.requires_grad)
    held = memory.held(Architecture.of(AutoConfig.from_pretrained(checkpoint)), Learner(update))
    assert (held.weights, held.gradients) == (sum(weights.values()), trained)


def test_the_longest_pass_is_bounded_by_batch_tokens_and_checkpointing_is_worth_it() -> None:
    found = sizes("qwen2.5")
    longest = Pass(32_768, 4_000, 24_000, 2_691)
    with_it, without = (
        memory.peak(
            found, Learner(HALF.model_copy(update={"gradient_checkpointing": kept}), ranks=8), longest
        )
        for kept in (True, False)
    )
    assert with_it.total < without.total / 4
    twice = memory.peak(found, SHARDED, Pass(65_536, 8_000, 48_000, 2_691))
    assert twice.kept + twice.layer == pytest.approx(2 * (with_it.kept + with_it.layer), rel=0.001)
