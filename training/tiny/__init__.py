"""The small policy: a Qwen3-VL of about two million parameters, and how it was made. See docs/tiny.md."""
