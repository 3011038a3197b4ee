"""Running coroutines together: all of them end before this does, and the first error is the one raised."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """A task group whose error is the first one itself and no group of them; the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures
