"""Who may talk to the pool: a bearer token everywhere but at the open paths, and bounded request bodies."""

import hmac

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from guiagent import wire

_OPEN = frozenset({"/", wire.HEALTH})


class Guard:
    """ASGI middleware around the whole application, so that a new route is closed until it is opened here.

    Browsers cannot set headers on a WebSocket: they offer the token as a subprotocol beside
    `wire.LIVE_PROTOCOL`, which unlike a query string ends up in no log. A WebSocket opened by a page of
    another origin is refused even with the token.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and scope["path"] in _OPEN):
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["type"] == "websocket":
            if self._allows_socket(headers):
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
        elif not self._is_token(_bearer(headers)):
            detail = "send the pool's token as 'Authorization: Bearer ...'; it is in the pool's endpoint.json"
            await _refuse(send, wire.Problem("Unauthorized", 401, detail, "unauthorized"))
        elif b"transfer-encoding" in headers:
            detail = "send the request with a Content-Length"
            await _refuse(send, wire.Problem("Length Required", 411, detail, "length_required"))
        elif int(headers.get(b"content-length", b"0")) > wire.MAX_BODY:
            detail = f"a request may have at most {wire.MAX_BODY} bytes"
            await _refuse(send, wire.Problem("Content Too Large", 413, detail, "too_large"))
        else:
            await self._app(scope, receive, send)

    def _is_token(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token)

    def _allows_socket(self, headers: dict[bytes, bytes]) -> bool:
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        if origin is not None and origin.partition(b"://")[2] != host:
            return False
        offered = [name.strip() for name in headers.get(b"sec-websocket-protocol", b"").split(b",")]
        return any(self._is_token(one) for one in (*offered, _bearer(headers)))


def _bearer(headers: dict[bytes, bytes]) -> bytes:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


async def _refuse(send: Send, problem: wire.Problem) -> None:
    body = msgspec.json.encode(problem)
    headers = [(b"content-type", wire.PROBLEM.encode()), (b"content-length", str(len(body)).encode())]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
