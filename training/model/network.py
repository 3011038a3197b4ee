"""The model that is trained: precision, adapters, sharding, its frozen reference, and saving."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.distributed.fsdp import register_fsdp_forward_method
from transformers import PreTrainedModel

from training.config import OptimizationConfig
from training.distributed.parallel import Distributed, copied, shard
from training.distributed.ranks import ProcessGroup, SingleProcess
from training.inputs.checkpoint_files import preparation_files
from training.inputs.contexts import Context
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, PackedBatch, pack
from training.inputs.pictures import Picture
from training.model import lora
from training.model.feature_cache import KeptFeatures
from training.model.flops import Flops, Work
from training.model.forward import Look, Scores, encode_images, score
from training.model.pretrained import open_model

_PREPARING = 8  # threads that decode and resize screenshots for a GPU

Shard = Callable[[PreTrainedModel], PreTrainedModel]


def _accelerator() -> torch.device:
    """Return the GPU that this thread works on, by its number: each thread has another "cuda"."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


@dataclass(frozen=True)
class Placement:
    """Where a model is: on this process's device, all of it or the part that this one of several has."""

    device: torch.device = field(default_factory=_accelerator)
    ranks: ProcessGroup = field(default_factory=SingleProcess)
    shard: Shard | None = None  # keeps this process's part of a model; None: all of it is here

    @classmethod
    def over(cls, ranks: Distributed, precision: str) -> "Placement":
        """Sharded over `ranks`, its weights of this precision ("float32", "bfloat16") while they compute."""
        return cls(ranks.device, ranks, partial(shard, ranks=ranks, precision=getattr(torch, precision)))


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint to go on from, and the one that the whole run began with."""

    newest: Path
    start: Path


class Network:
    """A checkpoint opened for training.

    Without adapters all weights are float32 and trained, whatever `config.precision` the activations have;
    with adapters only these are, and the frozen weights keep the precision they were saved in. The run's
    first checkpoint is the base of the adapters, and the `reference` if one is wanted.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        encoder: Encoder,
        config: OptimizationConfig,
        placement: Placement,
        *,
        reference: bool = False,
        temperature: float = 1.0,
    ) -> None:
        newest, start = checkpoints.newest, checkpoints.start
        saved = newest / lora.FOLDER
        # A run that begins with a checkpoint of another one begins with all of it, and new adapters.
        resuming = config.lora is not None and newest != start and saved.is_dir()
        model = open_model(start if resuming else newest)
        self._work = Work.of(model)
        if config.gradient_checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": False})
        if config.compile:
            for layer in model.model.language_model.layers:
                layer.compile(dynamic=True)
        self._adapters = None
        if config.lora is not None:
            self._adapters = lora.adapted(model, config.lora, saved if resuming else None)
        if config.freeze_vision:
            model.model.visual.requires_grad_(False)
        learns = any(p.requires_grad for p in model.model.visual.parameters())
        # Operations of a training step in forward passes: the backward pass takes one more for the
        # activations between the weights and the loss, and one more for the weights themselves.
        self._passes = Flops(3.0 if config.lora is None else 2.0, 3.0 if learns else 1.0)
        self.model = _placed(model.train(), placement, exact=config.lora is None)
        self._encoder, self._ranks = encoder, placement.ranks
        self._preparation = preparation_files(encoder.checkpoint)
        self._temperature, self.device = temperature, placement.device
        self._bfloat16 = config.precision == "bfloat16"
        self._merge: int = model.config.vision_config.spatial_merge_size
        self._frozen: PreTrainedModel | None = None
        if reference and self._adapters is None:
            self._frozen = _placed(open_model(start).requires_grad_(False), placement, exact=True)
        # With caches, processes would encode different screens, and deadlock in a sharded tower.
        self._look: Look = KeptFeatures() if placement.ranks.world == 1 and not learns else encode_images

    @property
    def hidden_size(self) -> int:
        size: int = self.model.config.text_config.hidden_size
        return size

    def pack(self, trajectories: list[list[Branch]], frame: Callable[[str], bytes]) -> PackedBatch:
        """Pack trajectories, on the CPU, in any thread. `frame` returns a screenshot's bytes by its hash.

        Of none there is a small blank pack: with it a process takes part in others' collectives.
        """
        encoder = self._encoder
        if not trajectories:
            blank = encoder.prepare(Image.new("RGB", (1, 1)))
            ids = [*encoder.first_prompt("", blank), encoder.completion("-")[0]]
            said = [False] * (len(ids) - 1) + [True]
            context = Context(ids, said, [0.0] * len(ids), [0] * len(ids), [""])
            return pack([[Branch(context)]], lambda _: blank, encoder.image_token, self._merge)
        shown = self._pictures(trajectories, frame)
        return pack(trajectories, shown.__getitem__, encoder.image_token, self._merge)

    def _pictures(
        self, trajectories: list[list[Branch]], frame: Callable[[str], bytes]
    ) -> dict[str, Picture]:
        """Prepare all screenshots of the trajectories, by their hashes; for a GPU by several threads."""
        contexts = (branch.context for branches in trajectories for branch in branches)
        names = dict.fromkeys(name for context in contexts for name in context.frames)
        frames = {name: frame(name) for name in names}
        if self.device.type == "cpu":  # which computes meanwhile: more threads would make both slower
            return {name: self._encoder.picture(data) for name, data in frames.items()}
        with ThreadPoolExecutor(_PREPARING, "preparing") as threads:
            return dict(zip(frames, threads.map(self._encoder.picture, frames.values()), strict=True))

    def score(self, pack: PackedBatch, *, entropy_gradient: bool = False, hidden: bool = False) -> Scores:
        """Score the sampled tokens of `pack` under the current weights."""
        return self._score(self.model, pack, self._look, entropy_gradient=entropy_gradient, hidden=hidden)

    @torch.no_grad()
    def reference_logprobs(self, pack: PackedBatch) -> Tensor:
        """[N]: log-probabilities under the policy that the run began with.

        Raises ValueError if the network was opened without its reference.
        """
        if self._adapters is not None:
            with self._adapters.disable_adapter():
                return self._score(self.model, pack, self._look).logprobs
        if self._frozen is None:
            raise ValueError("this network was opened without its reference")
        return self._score(self._frozen, pack, encode_images).logprobs

    def flops(self, pack: PackedBatch) -> float:
        """Operations of a forward and a backward pass, as `training.model.flops` counts them.

        A screenshot whose features come from the cache counts as encoded.
        """
        contexts = [(length, length) for length in pack.layout.lengths]
        patches = [len(picture.patches) for picture in pack.pictures]
        once = self._work.forward(len(pack.ids), contexts, len(pack.sampled), patches)
        return self._passes.language * once.language + self._passes.vision * once.vision

    @property
    def bytes(self) -> int:
        """Bytes of all weights, in all processes together."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())

    @property
    def trained(self) -> dict[str, Tensor]:
        """The parameters that are trained, by name."""
        return {name: x for name, x in self.model.named_parameters() if x.requires_grad}

    def weights(self) -> dict[str, Tensor]:
        """Copies of all weights by the names of the checkpoint, adapters added in. Collective; rank 0 has
        them."""
        return lora.merged(self.model)

    def adapter(self) -> dict[str, Tensor]:
        """The adapters alone, by peft's names, for an engine that has the base weights.

        Collective; rank 0 has them. Raises ValueError if there are none.
        """
        if self._adapters is None:
            raise ValueError("this network was opened without adapters")
        return {name: copied(x) for name, x in lora.saved_state(self._adapters).items()}

    def export(self) -> Callable[[Path], None]:
        """Copy the weights, and return what writes them: an ordinary Hugging Face folder, the adapters alone
        in a subfolder. Collective; what is returned is for rank 0."""
        weights = self.weights()
        own = {name: copied(x) for name, x in self._adapter_state().items()}

        def write(directory: Path) -> None:
            self.model.save_pretrained(directory, state_dict=weights)
            for name, data in self._preparation.items():
                (directory / name).write_bytes(data)
            if self._adapters is not None:
                self._adapters.save_pretrained(str(directory / lora.FOLDER), state_dict=own)

        return write

    def save(self, directory: Path) -> None:
        """Export now. Collective; rank 0 writes."""
        write = self.export()
        if self._ranks.rank == 0:
            write(directory)

    def _adapter_state(self) -> dict[str, Tensor]:
        if self._adapters is None:
            return {}
        return {name: x for name, x in self._adapters.state_dict().items() if ".lora_" in name}

    def _score(
        self,
        model: PreTrainedModel,
        pack: PackedBatch,
        encode_images: Look,
        *,
        entropy_gradient: bool = False,
        hidden: bool = False,
    ) -> Scores:
        with self._autocast():
            return score(
                model,
                pack,
                self._encoder.unsampled,
                temperature=self._temperature,
                entropy_gradient=entropy_gradient,
                hidden=hidden,
                encode_images=encode_images,
            )

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16) if self._bfloat16 else nullcontext()


def _placed(model: PreTrainedModel, placement: Placement, *, exact: bool) -> PreTrainedModel:
    """Move a model, or its shard, to the device; in float32 if `exact`, else in the precision of its file.

    On the CPU the weights are mapped from the checkpoint, and all processes of a machine share them. Sharding
    moves one layer at a time to the device, and only the shards become float32: no process ever holds the
    whole model in float32.
    """
    if placement.shard is None:
        torch.nn.Module.to(model, placement.device)
    else:
        model = placement.shard(model)
        register_fsdp_forward_method(model, "get_image_features")
    return model.float() if exact else model
