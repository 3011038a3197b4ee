"""What the shards of a checkpoint hold, put together without the code that is tested."""

import json
from pathlib import Path

import torch
from safetensors import safe_open


def whole_shards(checkpoint: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint's shards, whole, by their names."""
    pieces: dict[str, dict[int, torch.Tensor]] = {}
    for file in sorted((checkpoint / "shards").glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            info = json.loads(tensors.metadata()["DCP_SHARDING_INFO"])
            for name in tensors.keys():  # noqa: SIM118 - no mapping
                piece = tensors.get_tensor(name)
                if piece.numel() or piece.ndim == 0:  # a process may have nothing of a small one
                    first = (info[name]["saved_offsets"] or [0])[0]
                    assert first not in pieces.setdefault(name, {}), f"{name} is written twice at {first}"
                    pieces[name][first] = piece
    return {
        name: torch.cat([rows[at] for at in sorted(rows)]) if rows[min(rows)].ndim else rows[0]
        for name, rows in pieces.items()
    }
