"""Qwen2.5-VL and Qwen3-VL with random weights, small enough for a test, and made-up trajectories for them."""

import random
from typing import Literal

import torch
from transformers import PreTrainedModel

from guiagent.types import PolicyOutput, Score, Step, Trajectory
from training.inputs.pictures import Normalization, Picture

Family = Literal["qwen2_5", "qwen3"]
FAMILIES: tuple[Family, ...] = ("qwen2_5", "qwen3")
IMAGE, VISION_START, VISION_END, VIDEO = 200, 201, 202, 203
WORDS = range(10, 190)
UNSAMPLED = [IMAGE, VISION_START, VISION_END, VIDEO]
MERGE = 2
_NORMALIZATION = Normalization((0.5,) * 3, (0.25,) * 3, temporal=2)


def model(family: Family, *, hidden: int = 64, layers: int = 2, vocabulary: int = 210) -> PreTrainedModel:
    """In training mode and float32; always the same weights."""
    torch.manual_seed(1)
    special = {
        "image_token_id": IMAGE,
        "video_token_id": VIDEO,
        "vision_start_token_id": VISION_START,
        "vision_end_token_id": VISION_END,
    }
    heads = 4
    text = {
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 2,
        "head_dim": hidden // heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 8192,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    vision = {
        "depth": layers,
        "hidden_size": hidden // 2,
        "intermediate_size": hidden,
        "num_heads": 2,
        "out_hidden_size": hidden,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
    }
    quarter = hidden // heads // 8
    rope = {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_section": [hidden // heads // 2 - 6 * quarter // 2, 3 * quarter // 2, 3 * quarter // 2],
    }
    if family == "qwen2_5":
        from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

        vision |= {"patch_size": 14, "window_size": 56, "fullatt_block_indexes": [layers - 1]}
        config = Qwen2_5_VLConfig(
            text_config=text | {"rope_parameters": rope}, vision_config=vision, **special
        )
        return Qwen2_5_VLForConditionalGeneration(config).float().train()
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    vision |= {"patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
    rope["mrope_interleaved"] = True
    config3 = Qwen3VLConfig(text_config=text | {"rope_parameters": rope}, vision_config=vision, **special)
    return Qwen3VLForConditionalGeneration(config3).float().train()


def picture(family: Family, name: str, patches: tuple[int, int] = (4, 6)) -> Picture:
    """Noise, the same for the same name."""
    rows, columns = patches
    side = 14 if family == "qwen2_5" else 16
    noise = torch.Generator().manual_seed(sum(name.encode()) * 7919 + len(name))
    pixels = torch.randint(256, (rows * columns, 3 * side * side), generator=noise, dtype=torch.uint8)
    return Picture(pixels, (1, rows, columns), rows * columns // MERGE**2, _NORMALIZATION)


def trajectory(
    seed: int,
    turns: int,
    *,
    window: int | None = None,
    sliding: bool = False,
    tokens: int = 5,
    system: int = 12,
    shown: tuple[int, int] = (4, 6),
    screens: int | None = None,
) -> Trajectory:
    """A made-up episode with the full history, an anchored window, or a sliding one. With `screens` its
    pictures repeat after so many."""
    rng = random.Random(seed)
    places = shown[0] * shown[1] // MERGE**2

    def words(n: int) -> list[int]:
        return [rng.choice(WORDS) for _ in range(n)]

    head = words(system)
    steps: list[Step] = []
    for turn in range(turns):
        observation = [VISION_START, *[IMAGE] * places, VISION_END, *words(3)]
        fresh, images, prompt = turn == 0, 1, [*(head if turn == 0 else []), *observation]
        if window and not sliding and turn % window == 0:
            fresh, prompt = True, [*head, *observation]
        if window and sliding and turn >= window:
            fresh, images, prompt = True, window, [*head]
            for past in steps[turn - window + 1 :]:
                own = past.policy.prompt_ids
                prompt += own[len(own) - len(observation) :]
                prompt += past.policy.completion_ids
            prompt += observation
        completion = words(rng.randint(1, tokens))
        output = PolicyOutput(
            text="",
            prompt_ids=prompt,
            completion_ids=completion,
            logprobs=[-rng.random() for _ in completion],
            fresh=fresh,
            images=images,
        )
        name = f"{seed}/{turn % screens if screens else turn}"
        steps.append(Step(name, 10, 10, output))
    return Trajectory(f"t{seed}", "task", seed, "do it", steps, "task_done", Score(float(seed % 2)))
