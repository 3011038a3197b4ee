"""Create the engine that a run's config asks for: in this process, or on vLLM servers."""

import os
from dataclasses import replace
from pathlib import Path

import torch

from guiagent.errors import UsageError
from training.config import PlacementConfig, TrainConfig
from training.engine.engine import Engine
from training.engine.local import LocalEngine
from training.engine.sampling import Sampling
from training.engine.vllm.checkpoint_view import context_length
from training.engine.vllm.command import ServerConfig
from training.engine.vllm.engine import VllmEngine
from training.engine.vllm.replica import RemoteServer, Server
from training.engine.vllm.server import TOKEN_VARIABLE, VllmServer
from training.engine.weights import WeightWriter, checkpoint_state, shared_memory_folder
from training.inputs.encoder import Encoder
from training.model.pretrained import on_accelerator, open_model


def open_engine(config: TrainConfig, encoder: Encoder, run: Path, *, seed: int) -> Engine:
    """Open an engine on the checkpoint of `encoder`. Blocks until it can sample; close it when done.

    Raises:
        UsageError: the config asks for adapter updates without `update.lora`, or for narrowed sampling by
            vLLM with several optimiser steps per batch.
        InfrastructureError: a server does not start, or the checkpoint is damaged.
    """
    rollout = config.rollout
    sampling = Sampling(rollout.temperature, rollout.top_p, rollout.frequency_penalty, rollout.max_new_tokens)
    if rollout.vllm is None:
        return _in_process(config, encoder, sampling, seed)
    settings, lora = rollout.vllm, None
    if sampling.narrows and config.update.epochs * config.update.minibatches > 1:
        raise UsageError(
            "with rollout.top_p or rollout.frequency_penalty vLLM does not say how likely a token was by the "
            "policy itself, and ratios start at 1 in every optimiser step: leave update.epochs and "
            "update.minibatches at 1"
        )
    if settings.update == "lora":
        lora = config.update.lora
        if lora is None:
            raise UsageError('rollout.vllm.update = "lora" needs update.lora: add it to the recipe')
    folder = shared_memory_folder(run) if settings.update == "memory" else run / "weights"
    server = ServerConfig(
        encoder.checkpoint,
        log=run / "vllm.log",
        max_model_len=settings.max_model_len,
        max_lora_rank=lora.rank if lora else None,
    )
    token = os.environ.get(TOKEN_VARIABLE, "")
    servers: list[Server] = [RemoteServer(url, token) for url in settings.urls]
    engine = VllmEngine(
        servers or [VllmServer(one) for one in placed_servers(config.placement, server)],
        encoder,
        WeightWriter(folder, encoder.checkpoint, lora),
        sampling,
        max_context=min(settings.max_model_len, context_length(encoder.checkpoint)),
    )
    if servers and lora is None:  # they may have served other weights before
        try:
            engine.load_weights(checkpoint_state(encoder.checkpoint), 0)
        except BaseException:
            engine.close()
            raise
    return engine


def placed_servers(placement: PlacementConfig | None, server: ServerConfig) -> list[ServerConfig]:
    """Return the settings of each server of the run: its GPUs and its log, and all else as in `server`."""
    if placement is None or not placement.engines:
        return [server]
    placed = replace(server, gpu_memory=placement.engine_memory)
    log = server.log
    return [
        replace(placed, gpus=gpus, log=log.with_stem(f"{log.stem}-{number}") if number else log)
        for number, gpus in enumerate(placement.engines)
    ]


def _in_process(config: TrainConfig, encoder: Encoder, sampling: Sampling, seed: int) -> LocalEngine:
    """Open the engine in this process, on its GPU if it has one to itself, else beside the trainer."""
    model, placement = open_model(encoder.checkpoint), config.placement
    if placement is None or not placement.engines:
        return LocalEngine(on_accelerator(model), encoder, sampling, seed=seed)
    (gpu,) = placement.engines[0]
    model = on_accelerator(model, gpu)
    share = placement.engine_memory * torch.cuda.get_device_properties(gpu).total_memory
    room = cache_bytes(share, model.num_parameters() * model.dtype.itemsize)
    return LocalEngine(model, encoder, sampling, seed=seed, max_cache_bytes=room)


def cache_bytes(share: float, weights: int) -> int:
    """Return the bytes for keys and values of an engine in this process, of its share of a GPU's memory.

    They are three quarters of what the weights leave; the rest is for its passes.
    """
    return max(0, int((share - weights) * 0.75))
