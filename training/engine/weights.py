"""Write weights for an engine in another process: one file per version, and its manifest.

A version is a safetensors file, written under another name and renamed. In a folder that the servers can read
it travels "by path"; in `/dev/shm` it is shared memory that they map: "memory". LoRA's adapters are folders
as PEFT writes them. The manifest holds the xxh3-128 of every tensor's bytes; a server compares it before it
loads a version.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from guiagent.errors import InfrastructureError
from training.config import LoraConfig
from training.engine.vllm.worker import Manifest, record

SHARED_MEMORY = Path("/dev/shm")
_ADAPTER = "adapter_model.safetensors"  # PEFT's names
_ADAPTER_CONFIG = "adapter_config.json"
_TEMPORARY = ".tmp-"


@dataclass(frozen=True)
class Written:
    """A version that servers may load. `path` is a safetensors file, or the folder of an adapter."""

    path: Path
    version: int
    manifest: Manifest
    adapter: bool = False

    @property
    def file(self) -> Path:
        return self.path / _ADAPTER if self.adapter else self.path


class WeightWriter:
    """Write versions into `folder`, as `checkpoint` names and stores its tensors; with `lora`, adapters.

    The folder belongs to the writer: whatever else is in it is deleted.
    """

    def __init__(self, folder: Path, checkpoint: Path, lora: LoraConfig | None = None) -> None:
        """Raises InfrastructureError if the checkpoint cannot be read or the folder cannot be made."""
        self._folder = folder
        self._lora = lora
        self._base = str(checkpoint)
        self._like = {} if lora else checkpoint_tensors(checkpoint)
        self._written = 0
        try:
            shutil.rmtree(folder, ignore_errors=True)  # what a killed run left
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise InfrastructureError(
                f"no folder for new weights: {error}; make {folder} writable"
            ) from error

    def write(self, state: Mapping[str, torch.Tensor], version: int) -> Written:
        """Write a version. Raises InfrastructureError if `state` does not fit the checkpoint, or the disk is
        full."""
        tensors = adapter_tensors(state) if self._lora else fitted(state, self._like)
        manifest = {name: record(tensor) for name, tensor in tensors.items()}
        self._written += 1  # a version may be written twice while its first file is still needed
        name = f"{version:06d}-{self._written}"
        path = self._folder / (f"adapter-{name}" if self._lora else f"weights-{name}.safetensors")
        temporary = self._folder / f"{_TEMPORARY}{path.name}"
        try:
            if self._lora:
                temporary.mkdir()
                save_file(tensors, temporary / _ADAPTER)
                config = adapter_config(self._lora, self._base, tensors)
                (temporary / _ADAPTER_CONFIG).write_text(json.dumps(config, indent=1))
            else:
                save_file(tensors, temporary)
            temporary.rename(path)
        except (OSError, SafetensorError) as error:
            remove(temporary)
            raise InfrastructureError(
                f"the weights of version {version} could not be written to {self._folder}: {error}; make room"
            ) from error
        return Written(path, version, manifest, adapter=self._lora is not None)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def checkpoint_tensors(folder: Path) -> dict[str, tuple[str, list[int]]]:
    """The dtype (safetensors' name, such as "BF16") and the shape of every tensor in a checkpoint folder.

    Raises InfrastructureError if it has no safetensors file, or a damaged one.
    """
    found: dict[str, tuple[str, list[int]]] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - no mapping
                    piece = tensors.get_slice(name)
                    found[name] = piece.get_dtype(), piece.get_shape()
    except (OSError, RuntimeError, SafetensorError) as error:  # RuntimeError: torch's, of a file it maps
        raise InfrastructureError(f"the weights in {folder} cannot be read: {error}; restore them") from error
    if not found:
        raise InfrastructureError(
            f"there are no safetensors files in {folder}: save the checkpoint with them"
        )
    return found


def checkpoint_state(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor in a checkpoint folder. Raises InfrastructureError if it is damaged."""
    state: dict[str, torch.Tensor] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            state |= load_file(file)
    except (OSError, SafetensorError) as error:
        raise InfrastructureError(f"the weights in {folder} cannot be read: {error}; restore them") from error
    return state


DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


def fitted(
    state: Mapping[str, torch.Tensor], like: Mapping[str, tuple[str, Sequence[int]]]
) -> dict[str, torch.Tensor]:
    """Convert `state` to what the checkpoint stores: its names, its dtypes, on the CPU.

    A tied tensor that the checkpoint leaves out (the head that is the embedding) is left out here too.
    Raises InfrastructureError if a name is missing or unknown, or a shape is not the checkpoint's.
    """
    wrong = [f"{name} is missing" for name in like if name not in state]
    wrong += [f"{name} is unknown" for name in state if name not in like and not _is_tied(name, state, like)]
    wrong += [
        f"{name} has the shape {list(state[name].shape)}, not {list(shape)}"
        for name, (_, shape) in like.items()
        if name in state and list(state[name].shape) != list(shape)
    ]
    if wrong:
        raise InfrastructureError(f"the new weights are not the served checkpoint's: {'; '.join(wrong[:3])}")
    written: dict[str, torch.Tensor] = {}
    memory: set[int] = set()
    for name, (dtype, _) in like.items():
        tensor = state[name].detach().to("cpu", DTYPES.get(dtype, state[name].dtype)).contiguous()
        # Safetensors wants every tensor to have bytes of its own; a checkpoint may keep a tied one twice.
        written[name] = tensor.clone() if tensor.data_ptr() in memory else tensor
        memory.add(tensor.data_ptr())
    return written


def _is_tied(name: str, state: Mapping[str, torch.Tensor], like: Mapping[str, object]) -> bool:
    """Whether the tensor equals another one of the checkpoint, as a tied head equals the embedding."""
    tensor = state[name]
    return any(
        state[other].shape == tensor.shape and torch.equal(state[other], tensor)
        for other in like
        if other in state
    )


def adapter_tensors(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A LoRA adapter's tensors, by PEFT's names. Raises InfrastructureError if `state` is not one."""
    strange = [name for name in state if ".lora_A." not in name and ".lora_B." not in name]
    if strange or not state:
        raise InfrastructureError(
            f"no LoRA adapter: {strange[0] if strange else 'it is empty'}; without update.lora, use another "
            "rollout.vllm.update"
        )
    return {name: tensor.detach().to("cpu").contiguous() for name, tensor in state.items()}


def adapter_config(
    lora: LoraConfig, base: str, names: Mapping[str, object] | Sequence[str]
) -> dict[str, object]:
    """PEFT's `adapter_config.json`, for the modules that the tensors' names show."""
    modules = {name.partition(".lora_")[0].rpartition(".")[2] for name in names}
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(modules),
    }


def shared_memory_folder(run: Path) -> Path:
    """The shared-memory folder of a run's versions; a restarted run gets the same one, and empties it."""
    return SHARED_MEMORY / f"guiagent-weights-{xxhash.xxh3_64_hexdigest(str(run.resolve()).encode())}"


def remove(path: Path) -> None:
    """Remove a version: a file or a folder, or what is left of it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
