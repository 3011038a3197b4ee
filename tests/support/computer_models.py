"""Stand-ins for the APIs of two models with a computer tool: they look at the pictures that they are sent.

Each is shown a page with a red button; pressed, it turns green and takes a word. Where the red is, is read
from the picture's pixels, so that a screenshot that does not arrive, or a click that lands elsewhere, ends in
other words than the right ones. Requests and replies are held to the types of the APIs' own packages.
"""

import base64
import io
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anthropic.types.beta import BetaMessage
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from PIL import Image
from pydantic import BaseModel, TypeAdapter

Body = dict[str, Any]
WORD = "guiagent"


@dataclass
class ComputerModel:
    """A server of `/v1/responses` and `/v1/messages`. `requests` are what it was asked, with headers."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], Body]] = field(default_factory=list)


def seen(data: str) -> tuple[str, tuple[int, int]]:
    """What is on a picture in base64, "button", "field" or "nothing", and where the middle of it is."""
    image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    red, green = [], []
    for number, (r, g, b) in enumerate(image.get_flattened_data()):
        if r > 180 and g < 90 and b < 90:
            red.append(divmod(number, image.width))
        elif g > 130 and r < 80 and b < 110:
            green.append(divmod(number, image.width))
    for what, pixels in (("button", red), ("field", green)):
        if len(pixels) > 200:
            rows, columns = zip(*pixels, strict=True)
            return what, ((min(columns) + max(columns)) // 2, (min(rows) + max(rows)) // 2)
    return "nothing", (0, 0)


def responses(body: Body, turn: int) -> Body:
    """OpenAI's Responses API: a batch of actions at a time, `previous_response_id` in between."""
    assert body["tools"] == [{"type": "computer"}]
    last = body["input"][-1]
    if turn == 0:
        picture = last["content"][1]["image_url"]
    else:
        assert (body["previous_response_id"], last["type"]) == (f"resp_{turn - 1}", "computer_call_output")
        assert last["call_id"] == f"call_{turn - 1}"
        picture = last["output"]["image_url"]
    what, (x, y) = seen(picture.partition(",")[2])
    if what == "button":
        actions: list[Body] = [
            {"type": "move", "x": x, "y": y},
            {"type": "click", "button": "left", "x": x, "y": y},
        ]
    elif turn == 1:
        actions = [{"type": "type", "text": WORD}, {"type": "keypress", "keys": ["ENTER"]}]
    else:
        actions = []
    item: Body = {"type": "computer_call", "id": f"cu_{turn}", "call_id": f"call_{turn}", "actions": actions}
    item |= {"status": "completed", "pending_safety_checks": []}
    if not actions:
        text = {"type": "output_text", "text": f"I see {what}", "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    reply = {"id": f"resp_{turn}", "object": "response", "created_at": 0, "model": body["model"]}
    return reply | {"output": [item], "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}


def messages(body: Body, turn: int) -> Body:
    """Anthropic's Messages API: an action at a time, the whole conversation each time."""
    (tool,) = body["tools"]
    assert (tool["type"], tool["name"]) == ("computer_20251124", "computer")
    last = body["messages"][-1]["content"]
    if turn:
        assert (last[0]["type"], last[0]["tool_use_id"]) == ("tool_result", f"tool_{turn - 1}")
        last = last[0]["content"]
    if turn == 1:  # it was asked what it cannot do
        assert body["messages"][-1]["content"][0]["is_error"] and "teleport" in last
        last = body["messages"][0]["content"]
    what, (x, y) = seen(last[-1]["source"]["data"])
    call: Body | None = None
    if turn == 0:
        call = {"action": "teleport", "coordinate": [x, y]}
    elif what == "button":
        call = {"action": "left_click", "coordinate": [x, y]}
    elif turn == 2:
        call = {"action": "type", "text": WORD}
    elif turn == 3:
        call = {"action": "key", "text": "Return"}
    content: list[Body] = [{"type": "text", "text": f"I see {what}"}]
    if call:
        content.append({"type": "tool_use", "id": f"tool_{turn}", "name": "computer", "input": call})
    reply = {"id": "m", "type": "message", "role": "assistant", "model": body["model"], "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return reply | {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None, "usage": usage}


APIS: dict[str, Callable[[Body, int], Body]] = {"/v1/responses": responses, "/v1/messages": messages}
REQUESTS: dict[str, TypeAdapter[Any]] = {
    "/v1/responses": TypeAdapter(ResponseCreateParamsNonStreaming),
    "/v1/messages": TypeAdapter(MessageCreateParamsNonStreaming),
}
REPLIES: dict[str, type[BaseModel]] = {"/v1/responses": Response, "/v1/messages": BetaMessage}


def checked(value: object) -> None:
    """Iterate through what pydantic has validated: it checks the items of iterables as they are taken."""
    if isinstance(value, Mapping):
        for one in value.values():
            checked(one)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for one in value:
            checked(one)


@contextmanager
def computer_model() -> Iterator[ComputerModel]:
    """The server, until the block ends. What is not asked as it should be gets the status 400."""
    model = ComputerModel()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = self.path.partition("?")[0]
            turn = len(model.requests)
            model.requests.append((path, {name.lower(): value for name, value in self.headers.items()}, body))
            try:
                checked(REQUESTS[path].validate_python(body))
                status, reply = 200, APIS[path](body, turn)
                REPLIES[path].model_validate(reply)
            except (AssertionError, LookupError, TypeError, ValueError) as error:
                status, reply = 400, {"error": {"message": repr(error), "type": "invalid_request_error"}}
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    model.url = f"http://127.0.0.1:{listener.server_port}"
    try:
        yield model
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
