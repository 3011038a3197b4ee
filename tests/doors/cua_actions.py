"""Reads [{family, reply, size}] as JSON; prints what the agent loops of cua-agent make of each reply.

By the loops' own functions, in the loops' order; `null` where one finds no action for the computer. The last
line counts: the package prints others.
"""

import asyncio
import json
import sys
from types import ModuleType
from typing import Any

from cua_agent.loops import generic_vlm, qwen35, uitars
from cua_agent.loops.fara import helpers


def of_ui_tars(reply: str, width: int, height: int) -> list[dict[str, Any]]:
    read = uitars.parse_uitars_response(reply, width, height)
    return [flat(item) for item in uitars.convert_to_computer_actions(read, width, height)]


def flat(item: dict[str, Any]) -> dict[str, Any]:
    """An item of theirs as one action: a call of the computer's, or words."""
    if item["type"] == "message":
        return {"action": "message", "text": "".join(part["text"] for part in item["content"])}
    action = item["action"]
    return {**action, "action": action["type"]}


async def of_qwen(loop: ModuleType, reply: str, width: int, height: int) -> list[dict[str, Any]] | None:
    private = "" if loop is helpers else "_"
    call = getattr(loop, f"{private}parse_tool_call_from_text")(reply)
    if call is None:
        return None
    args = await getattr(loop, f"{private}unnormalize_coordinate")(call["arguments"], (width, height))
    action = loop.convert_qwen_tool_args_to_computer_action(args)
    return None if action is None else [action]


LOOPS = {"qwen3-computer": generic_vlm, "qwen3.5-computer": qwen35, "fara": helpers}


def read(family: str, reply: str, size: list[int]) -> list[dict[str, Any]] | None:
    try:
        if family in LOOPS:
            return asyncio.run(of_qwen(LOOPS[family], reply, *size))
        return of_ui_tars(reply, *size)
    except ValueError:
        return None


print(json.dumps([read(**one) for one in json.load(sys.stdin)]))
