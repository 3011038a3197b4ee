"""The optimisers: what they do not shard or lack is said, and a checkpoint holds all of their state."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from guiagent.errors import InfrastructureError, UsageError
from training.checkpoints.states import optimizer_state, restore_optimizer
from training.learner import optimizers

needs_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="there is no bitsandbytes"
)


def trained(optimizer: torch.optim.Optimizer, weight: Tensor, steps: int) -> None:
    """Towards 1."""
    for _ in range(steps):
        optimizer.zero_grad()
        (weight - 1).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["adamw", pytest.param("adamw8bit", marks=needs_bitsandbytes)])
def test_an_optimiser_goes_on_from_what_a_checkpoint_holds_of_it(name: str, tmp_path: Path) -> None:
    weight, frozen = nn.Parameter(torch.zeros(128, 64)), nn.Parameter(torch.zeros(3), requires_grad=False)
    optimizer = optimizers.make(name, [weight, frozen], 0.01)  # type: ignore[arg-type]
    trained(optimizer, weight, 3)
    assert 0.02 < float(weight.detach().mean()) < 0.04
    tensors, rest = optimizer_state(optimizer)
    assert any(tensor.dtype == torch.uint8 for tensor in tensors.values()) == (name == "adamw8bit")
    save_file(tensors, tmp_path / "optimizer.safetensors")

    other = nn.Parameter(weight.detach().clone())
    again = optimizers.make(name, [other], 0.5)  # type: ignore[arg-type]
    restore_optimizer(again, load_file(tmp_path / "optimizer.safetensors"), json.loads(json.dumps(rest)))
    trained(optimizer, weight, 2)
    trained(again, other, 2)
    assert torch.equal(weight, other)


def test_an_optimiser_that_is_not_installed_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(InfrastructureError, match="pip install bitsandbytes, or set it to adamw") as raised:
        optimizers.make("adamw8bit", [nn.Parameter(torch.zeros(2))], 0.1)
    assert "\n" not in str(raised.value)


def test_eight_bits_are_not_sharded_and_that_is_said() -> None:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        model = nn.Linear(4, 4)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        with pytest.raises(UsageError, match='set it to "adamw"'):
            optimizers.make("adamw8bit", model.parameters(), 0.1)
        assert optimizers.make("adamw", model.parameters(), 0.1).param_groups[0]["betas"] == (0.9, 0.95)
    finally:
        dist.destroy_process_group()
