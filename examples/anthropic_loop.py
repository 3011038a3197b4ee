"""Anthropic's computer tool drives a leased browser, by its own package; it takes $ANTHROPIC_API_KEY."""

import base64
import json
import os

import anthropic

import guiagent
from guiagent import DialectError, Observation
from guiagent.dialects import find_dialect

PAGE = """data:text/html,<body style="margin:0">
<button style="position:absolute;left:300px;top:200px;width:120px;height:40px;background:rgb(220,30,30)"
        onclick="this.remove(); document.body.innerHTML = '<input autofocus onchange=document.title=value>';
                 document.body.style.background = 'rgb(30,160,60)'">press me</button>"""
TASK = "Press the red button, then enter the word guiagent."
MODEL = os.environ.get("ANTHROPIC_MODEL", "claude-opus-4-6")


def picture(shown: Observation) -> dict:
    data = base64.b64encode(shown.frame).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": shown.media_type, "data": data}}


with guiagent.connect() as farm, farm.lease("browser") as device:
    client, dialect = anthropic.Anthropic(), find_dialect("anthropic-20251124")
    shown = device.open(PAGE)
    size = (shown.width, shown.height)
    width, height = dialect.space.extent(size)  # of the picture that the API makes of a large screen
    tool = {"type": "computer_20251124", "name": "computer"}
    tool |= {"display_width_px": width, "display_height_px": height}
    messages = [{"role": "user", "content": [{"type": "text", "text": TASK}, picture(shown)]}]
    for _ in range(20):
        said = client.beta.messages.create(
            model=MODEL,
            max_tokens=2048,
            tools=[tool],
            messages=messages,
            betas=["computer-use-2025-11-24"],
        )
        results = []
        for call in (one for one in said.content if one.type == "tool_use"):
            result = {"type": "tool_result", "tool_use_id": call.id}
            try:
                actions = dialect.parse(json.dumps(call.input), size)
            except DialectError as error:  # nothing was done, and the model may try again
                results.append(result | {"content": str(error), "is_error": True})
                continue
            shown = device.act(*actions)
            print(*actions, shown.action_error or "")
            told = [{"type": "text", "text": shown.action_error}] if shown.action_error else []
            results.append(result | {"content": [*told, picture(shown)]})
        if not results:
            break
        messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]
    print("the model said", "".join(one.text for one in said.content if one.type == "text"))
    print("the page is now called", device.observe(page=True).title)
