"""OpenAI's computer tool drives a leased browser, by its own package; it takes $OPENAI_API_KEY."""

import base64
import os

import openai

import guiagent
from guiagent import DialectError, Observation
from guiagent.dialects import find_dialect

PAGE = """data:text/html,<body style="margin:0">
<button style="position:absolute;left:300px;top:200px;width:120px;height:40px;background:rgb(220,30,30)"
        onclick="this.remove(); document.body.innerHTML = '<input autofocus onchange=document.title=value>';
                 document.body.style.background = 'rgb(30,160,60)'">press me</button>"""
TASK = "Press the red button, then enter the word guiagent."
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5.4")


def picture(shown: Observation) -> str:
    return f"data:{shown.media_type};base64,{base64.b64encode(shown.frame).decode()}"


with guiagent.connect() as farm, farm.lease("browser") as device:
    client, dialect = openai.OpenAI(), find_dialect("openai-computer")
    shown = device.open(PAGE)
    asked = [
        {"type": "input_text", "text": TASK},
        {"type": "input_image", "image_url": picture(shown), "detail": "original"},
    ]
    told, previous = [{"role": "user", "content": asked}], None
    for _ in range(20):
        said = client.responses.create(
            model=MODEL, tools=[{"type": "computer"}], input=told, previous_response_id=previous
        )
        told, previous = [], said.id
        for call in (one for one in said.output if one.type == "computer_call"):
            try:
                actions = dialect.parse(call.model_dump_json(exclude_none=True), (shown.width, shown.height))
            except DialectError as error:  # no action, or one that a person has to acknowledge first
                raise SystemExit(f"nothing was done: {error}") from None
            shown = device.act(*actions)
            print(*actions, shown.action_error or "")
            screen = {"type": "computer_screenshot", "image_url": picture(shown)}
            told.append({"type": "computer_call_output", "call_id": call.call_id, "output": screen})
        if not told:
            break
    print("the model said", said.output_text)
    print("the page is now called", device.observe(page=True).title)
