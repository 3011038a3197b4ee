"""The small policy, a Qwen3-VL of 1.5 million parameters, the small judge, and their making: docs/tiny.md."""
