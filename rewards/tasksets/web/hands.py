"""Hands for oracles: find an element of the page by a CSS selector, and click and type as a person does."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from guiagent.actions import ACTIONS
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device
from guiagent.types import ObserveSpec

_LOOKS, _PAUSE_S = 40, 0.05  # a page may fade a part of itself in, as after a click on a tab
_FIND = """
(() => {
  const found = [...document.querySelectorAll(SELECTOR)].filter(one => one.getClientRects().length)[NTH];
  if (!found) return null;
  found.scrollIntoView({block: 'center', behavior: 'instant'});
  const box = found.getBoundingClientRect();
  const options = found.options ? [...found.options].map(one => one.text.trim()) : [];
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2].map(Math.round);
  return [x, y, options, found.selectedIndex ?? -1];
})()
"""


class Hands:
    """One pair of hands on a device. An element that does not appear is a FaultError of origin "task"."""

    def __init__(self, device: Device) -> None:
        self._device = device

    async def open(self, url: str) -> None:
        await self._do({"type": "open", "target": url})

    async def click(self, selector: str, nth: int = 0) -> None:
        x, y, *_ = await self._find(selector, nth)
        await self._do({"type": "click", "x": x, "y": y})

    async def fill(self, selector: str, text: str) -> None:
        """Click into a field and type over what it holds."""
        x, y, *_ = await self._find(selector, 0)
        await self._do({"type": "click", "x": x, "y": y}, {"type": "type", "text": text, "clear": True})

    async def choose(self, selector: str, option: str) -> None:
        """Open a drop-down list, go to the option by the arrow keys, and take it."""
        x, y, options, at = await self._find(selector, 0)
        if option not in options:
            raise FaultError(Fault("task", "oracle", f"{selector} has no option {option!r}: {options}"))
        steps = options.index(option) - at
        arrow = {"type": "key", "keys": ["ArrowDown" if steps > 0 else "ArrowUp"]}
        enter = {"type": "key", "keys": ["Enter"]}
        await self._do({"type": "click", "x": x, "y": y}, *[arrow] * abs(steps), enter)

    async def _find(self, selector: str, nth: int) -> Sequence[Any]:
        script = _FIND.replace("SELECTOR", json.dumps(selector)).replace("NTH", str(nth))
        spec = ObserveSpec(frame="none", page=True, probes={"found": script})
        for _ in range(_LOOKS):
            shown = await self._device.observe(spec)
            if shown.probes["found"] is not None:
                found: Sequence[Any] = shown.probes["found"]
                return found
            await asyncio.sleep(_PAUSE_S)
        raise FaultError(Fault("task", "oracle", f"{shown.url} shows no element {selector!r}"))

    async def _do(self, *told: dict[str, Any]) -> None:
        seen = await self._device.act(ACTIONS.validate_python(list(told)), ObserveSpec(frame="none"))
        if seen.action_error is not None:
            raise FaultError(Fault("task", "oracle", seen.action_error))
