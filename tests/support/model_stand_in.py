"""Model server for tests: `/v1/chat/completions` over real HTTP, with scripted replies and faults."""

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Literal

Body = dict[str, Any]
Mind = Callable[[Body], str | Sequence[str]]  # one text for all of n, or n of them
Trouble = Literal["busy", "down", "hang", "torn", "mute", "twice", "cut", "strict"]


@dataclass
class StandIn:
    """`trouble` names what goes wrong with the k-th request, counted from 0; None: nothing."""

    mind: Mind
    trouble: Callable[[int, Body], Trouble | None] = lambda k, body: None
    url: str = ""
    reply: bytes | None = None  # said in place of any completion
    embed: Callable[[str], list[float]] | None = None  # of `/v1/embeddings`, which there is not without it
    requests: list[bytes] = field(default_factory=list)  # bodies, as they came
    headers: list[dict[str, str]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bodies(self) -> list[Body]:
        return [json.loads(request) for request in self.requests]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers["content-length"])
        raw = handler.rfile.read(length)
        if len(raw) < length:
            return  # the client lost its patience while it was asking
        body = json.loads(raw)
        with self._lock:
            trouble = self.trouble(len(self.requests), body)
            self.requests.append(raw)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        if handler.path == "/v1/embeddings" and self.embed is not None and self.reply is None:
            vectors = [{"index": i, "embedding": self.embed(text)} for i, text in enumerate(body["input"])]
            return _send(
                handler, 200, json.dumps({"data": vectors[::-1], "usage": {"prompt_tokens": 3}}).encode()
            )
        if handler.path != "/v1/chat/completions" and self.embed is None:
            return _send(handler, 404, b'{"error": {"message": "no such path"}}')
        if trouble == "busy":
            return _send(handler, 429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0"})
        if trouble == "strict" and "return_token_ids" in body:
            return _send(handler, 422, b'{"detail": "Unexpected fields: return_token_ids"}')
        if trouble == "down":
            return _send(handler, 503, b"<html>upstream</html>")
        if trouble == "cut":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{")
            return handler.wfile.flush()
        if trouble == "hang":
            self.let_go.wait(20)
        if self.reply is not None:
            return _send(handler, 200, self.reply)
        n = body.get("n", 1)
        said = "" if trouble == "mute" else self.mind(body)
        texts = [said] * n if isinstance(said, str) else list(said)[:n]
        said_as = [{"role": "assistant", "content": text} for text in texts]
        choices = [{"index": i, "message": m, "finish_reason": "stop"} for i, m in enumerate(said_as)]
        if trouble == "twice":
            choices = [choice for choice in choices for _ in range(2)]
        usage = {"prompt_tokens": len(raw) // 10, "completion_tokens": 7 * n, "total_tokens": 0}
        told = {"id": "r", "object": "chat.completion", "created": 0, "model": body.get("model")}
        reply = json.dumps(told | {"choices": choices, "usage": usage}).encode()
        _send(handler, 200, reply[: len(reply) // 2] if trouble == "torn" else reply)


def _send(
    handler: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    # Said, since it is done: a client that used the connection again would race with its end.
    for name, value in {"Content-Type": "application/json", "Connection": "close", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def stand_in(
    mind: Mind, trouble: Callable[[int, Body], Trouble | None] = lambda k, body: None
) -> Iterator[StandIn]:
    """The server, running in threads until the block ends."""
    server = StandIn(mind, trouble)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # the client lost its patience
                server.answer(self)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.url = f"http://127.0.0.1:{listener.server_port}"
    try:
        yield server
    finally:
        server.let_go.set()
        listener.shutdown()
        listener.server_close()
        thread.join()


def weather(seed: int) -> Callable[[int, Body], Trouble | None]:
    """30 % busy, 10 % hang, 10 % malformed (half torn, half without a score), 5 % with every choice twice."""
    rng = random.Random(seed)
    kinds: list[Trouble | None] = ["busy", "hang", "torn", "mute", "twice", None]
    return lambda k, body: rng.choices(kinds, [30, 10, 5, 5, 5, 45])[0]


def closed_port() -> str:
    """An address where nobody listens."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    listener.server_close()
    return f"http://127.0.0.1:{listener.server_port}"
