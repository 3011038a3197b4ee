"""Benchmarks: every figure beside a peer's or a limit, measured in the same run. `python -m tests.bench`."""
