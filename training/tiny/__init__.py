"""The small policy: a Qwen3-VL of 1.5 million parameters, and how it was made. See docs/tiny.md."""
