"""The server of a live page: loopback, a token, five paths, and nothing that writes.

The page itself is the same for every run and needs no token; whatever is of the run does. The token is in the
address's fragment, which no browser sends and no server logs, and comes back in a header.
"""

import hmac
import re
import secrets
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from eval.watch.page import content_policy, document
from eval.watch.run import Cursor, WatchedRun
from eval.watch.screens import FarmScreens

_SLOW_S = 20.0  # to send a request, or to take an answer
_HOSTS = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")  # a name that resolves to us is no way in
_AT = re.compile(r"([0-9]{1,6})\.([0-9]{1,12})")
_HASH = re.compile(r"[0-9a-f]{32}")


class Answer(NamedTuple):
    status: int
    media: str
    body: bytes


_NOTHING = Answer(404, "text/plain", b"there is nothing here")


class LiveServer:
    """Serves the page of `run` on a port of loopback; 0 picks a free one. `url` has the token in it.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, run: WatchedRun, screens: FarmScreens, name: str, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._site = Site(run, screens, document(title=name).encode())
        self._server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, self._site, self.token))
        self._server.daemon_threads = True

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/#token={self.token}"

    def serve(self) -> None:
        """Answer requests until `close` or an interrupt."""
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Site:
    """What the server answers to each path."""

    def __init__(self, run: WatchedRun, screens: FarmScreens, page: bytes) -> None:
        self.page = page
        self._run, self._screens = run, screens

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        _, head, *rest = path.split("/", 2)
        paths: dict[str, Callable[[str, dict[str, str]], Answer]] = {
            "changes": self._changes,
            "earlier": self._earlier,
            "episode": self._episode,
            "frame": self._frame,
            "screen": self._screen,
        }
        if head not in paths:
            return _NOTHING
        try:
            return paths[head](unquote(rest[0]) if rest else "", query)
        except (KeyError, ValueError, OverflowError):
            return _NOTHING

    def _changes(self, _: str, query: dict[str, str]) -> Answer:
        cursor = Cursor(
            epoch=int(query.get("epoch", -1)),
            lines=int(query.get("lines", 0)),
            stride=int(query.get("stride", 0)),
            rows=int(query.get("rows", 0)),
            events=int(query.get("events", 0)),
            episode=_place(query["episode"]) if query.get("episode") else (0, -1),
            settings=float(query.get("settings", 0)),
        )
        told = self._run.changes(cursor)
        if "screens" in query:
            live = self._screens.devices()
            told["screens"] = {"live": bool(live), "devices": live or self._run.newest_frames()}
        return _json(told)

    def _earlier(self, at: str, _: dict[str, str]) -> Answer:
        return _json(self._run.earlier(_place(at)))

    def _episode(self, at: str, _: dict[str, str]) -> Answer:
        return _json(self._run.episode(_place(at)))

    def _frame(self, hash: str, _: dict[str, str]) -> Answer:
        return Answer(200, *self._run.frame(hash)) if _HASH.fullmatch(hash) else _NOTHING

    def _screen(self, device: str, _: dict[str, str]) -> Answer:
        return Answer(200, *self._screens.picture(device))


class _Handler(BaseHTTPRequestHandler):
    timeout = _SLOW_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "guiagent", ""

    def __init__(self, site: Site, token: str, *arguments: Any) -> None:
        self._site, self._token = site, token
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if not _HOSTS.fullmatch(self.headers.get("Host", "")):
            self._send(Answer(403, "text/plain", b"ask 127.0.0.1 or localhost"))
            return
        address = urlsplit(self.path)
        if address.path == "/":
            self._send(Answer(200, "text/html; charset=utf-8", self._site.page))
        elif not self._is_allowed():
            self._send(Answer(401, "text/plain", b"the token in this address is not the run's"))
        else:
            query = dict(parse_qsl(address.query, keep_blank_values=True, max_num_fields=20))
            self._send(self._site.answer(address.path, query))

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: the terminal is the command's."""

    def _is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {
            "Content-Type": answer.media,
            "Content-Length": str(len(answer.body)),
            "Content-Security-Policy": content_policy(served=True),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)


def _place(at: str) -> tuple[int, int]:
    """Parse the address of an episode. Raises ValueError."""
    found = _AT.fullmatch(at)
    if found is None:
        raise ValueError(at)
    return int(found[1]), int(found[2])


def _json(told: Any) -> Answer:
    return Answer(200, "application/json", msgspec.json.encode(told))
