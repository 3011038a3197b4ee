"""A vision tower's attention: in one call what the library's own loop over screenshots computes."""

import copy
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tests.bench import small_vlm
from training.model import vision_attention
from training.model.flash import varlen_kernel
from training.tiny import model as tiny

GRIDS = torch.tensor([[1, 16, 24], [1, 16, 24], [1, 10, 6]])  # two alike, and one with windows cut short


def tower(family: str) -> tuple[Any, Tensor]:
    """A model, and the patches of three screenshots."""
    torch.manual_seed(0)
    model: Any
    if family == "qwen2.5":
        model, size = small_vlm.model(), 3 * 2 * 14 * 14
    else:
        model, size = tiny.make_model(tiny.make_tokenizer(["x"])), 3 * tiny.PATCH**2
    return model, torch.randn(int(GRIDS.prod(-1).sum()), size)


def looked(model: Any, patches: Tensor) -> tuple[Tensor, Tensor]:
    """What the tower makes of them, and the gradient of one of its first weights."""
    out = torch.cat(list(model.get_image_features(patches, GRIDS, return_dict=True).pooler_output))
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return out.detach(), model.model.visual.blocks[0].attn.qkv.weight.grad


@pytest.mark.parametrize("family", ["qwen2.5", "qwen3"])
@pytest.mark.parametrize("kernel", [False, True])
def test_it_is_the_librarys(family: str, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel too: a stand-in of its signature, for it runs on a GPU only."""
    model, patches = tower(family)
    library = copy.deepcopy(model)
    calls: list[int] = []
    if kernel:
        varlen = pytest.importorskip("torch.nn.attention.varlen", reason="an older PyTorch").varlen_attn

        def stand_in(*args: Any, **options: Any) -> Tensor:
            given = signature(varlen).bind(*args, **options)
            given.apply_defaults()
            assert given.arguments["window_size"] == (-1, -1)  # no past and no future is hidden
            starts = given.arguments["cu_seq_q"]
            assert starts.dtype == torch.int32
            assert given.arguments["max_q"] == int(starts.diff().max())
            calls.append(len(starts))
            segments = zip(
                *(x.transpose(0, 1).tensor_split(starts[1:-1].long(), dim=1) for x in args[:3]), strict=True
            )  # each [heads, tokens, size]
            scale = given.arguments["scale"]
            found = [
                scaled_dot_product_attention(q[None], k[None], v[None], scale=scale) for q, k, v in segments
            ]
            return torch.cat([one[0].transpose(0, 1) for one in found])

        monkeypatch.setattr(vision_attention, "varlen_kernel", lambda query, sequences: stand_in)
    vision_attention.use(model)
    (ours, own), (theirs, their) = looked(model, patches), looked(library, patches)
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
    assert (own - their).abs().max() <= 1e-4 * their.abs().max()
    assert len(calls) == (len(model.model.visual.blocks) if kernel else 0)


def test_a_cpu_has_no_kernel() -> None:
    assert varlen_kernel(torch.zeros(3, 2, 64, dtype=torch.bfloat16), 1) is None
