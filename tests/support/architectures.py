"""The published configs of the 7-8 B models that recipes name, without weights."""

from transformers import Qwen2_5_VLConfig, Qwen3VLConfig

QWEN25_7B = {  # of Qwen2.5-VL-7B, of which UI-TARS-1.5-7B and GUI-Owl-7B are
    "text_config": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128_000,
        "vocab_size": 152_064,
    },
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "patch_size": 14,
    },
}
QWEN3_8B = {  # of Qwen3-VL-8B
    "text_config": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262_144,
        "vocab_size": 151_936,
    },
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "out_hidden_size": 4096,
        "patch_size": 16,
        "deepstack_visual_indexes": [8, 16, 24],
    },
}


def qwen25_7b() -> Qwen2_5_VLConfig:
    return Qwen2_5_VLConfig(**QWEN25_7B)


def qwen3_8b() -> Qwen3VLConfig:
    return Qwen3VLConfig(**QWEN3_8B)
