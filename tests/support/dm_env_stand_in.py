"""Stands in for the package dm_env, whose time steps say nothing about where a touch lands."""

import contextlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


def _told(*told: Any) -> tuple[Any, ...]:
    return told


_STAND_IN = SimpleNamespace(
    Environment=SimpleNamespace(register=lambda _: None),
    restart=_told,
    transition=_told,
    termination=_told,
    truncation=_told,
)


@contextlib.contextmanager
def without_dm_env() -> Iterator[None]:
    """`AndroidEnv` works until the end of the block; its time steps are tuples."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "dm_env", _STAND_IN)
        yield
