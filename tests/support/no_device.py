"""A farm whose leases hold nothing, for episodes that need no device."""

from types import SimpleNamespace
from typing import Any


class NoDevice:
    def lease(self, *_: Any, **__: Any) -> "NoDevice":
        return self

    async def __aenter__(self) -> Any:
        return SimpleNamespace(id="nothing", token=0)

    async def __aexit__(self, *_: object) -> None:
        return None
