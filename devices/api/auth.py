"""Authentication: every path but the open ones needs a bearer token. Limits are checked here too."""

import asyncio
import hmac
from collections.abc import Mapping

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from devices.api.admission import MAX_CONTROL, Admission, Reservation, TooManyRequests, limit_of
from devices.api.problems import problem_of, problem_response
from devices.config import JOINING
from devices.leases import OPERATOR
from guiagent import wire

OPEN = frozenset({"/", wire.HEALTH})
JOIN = wire.HOSTS + "/join"
_POLICY_VIOLATION = 1008
_STOPPING = wire.Problem("Stopping", 503, "this pool is stopping", "no_leader", retryable=True)


class Guard:
    """ASGI middleware around the whole application, so that a new route needs a token unless it is in `OPEN`.

    `tokens` maps each token to a tenant's name, that of device hosts to `JOINING`. The request's tenant is
    written to `scope["tenant"]`, and the memory that the pool gives to it to `scope["reservation"]`. What is
    refused here is refused by its head: not a byte of its body is kept.

    Browsers cannot set headers on a WebSocket: they offer the token as a subprotocol beside
    `wire.LIVE_PROTOCOL`, because a query string would appear in logs. A WebSocket opened by a page of
    another origin is refused even with the token.
    """

    def __init__(self, app: ASGIApp, tokens: Mapping[str, str], admission: Admission) -> None:
        self._app = app
        self._tokens = [(token.encode(), tenant) for token, tenant in tokens.items()]
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if b"transfer-encoding" in headers:  # nobody knows how much is to come
            detail = "send the request with a Content-Length"
            refusal = wire.Problem("Length Required", 411, detail, "length_required")
            await _refuse(refusal, {"Connection": "close"})(scope, receive, send)
            return
        if scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        tenant, size = self._of(_bearer(headers)), int(headers.get(b"content-length", b"0"))
        if tenant is None:
            detail = "send the pool's token as 'Authorization: Bearer ...'; it is in the pool's endpoint.json"
            refusal = wire.Problem("Unauthorized", 401, detail, "unauthorized")
            await _refuse(refusal, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        if tenant == JOINING:
            refusal = wire.Problem("Forbidden", 403, "with this token hosts join, and no more", "forbidden")
            await _refuse(refusal, {})(scope, receive, send)
            return
        scope["tenant"] = tenant
        scope["reservation"] = reservation = Reservation(tenant)
        if size > MAX_CONTROL and size > (limit := limit_of(scope["method"], scope["path"])):
            detail = f"this request may have at most {limit} bytes"
            refusal = wire.Problem("Content Too Large", 413, detail, "too_large")
            await _refuse(refusal, {})(scope, receive, send)
            return
        try:
            self._admission.request(tenant, scope["path"])
            self._admission.reserve(reservation, size)
        except TooManyRequests as error:
            await problem_response(problem_of(error))(scope, receive, send)
            return
        try:
            await _answered(self._app, scope, receive, send)
        finally:
            self._admission.free(reservation)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant = self._of_socket(dict(scope["headers"]))
        if tenant == JOINING:  # whoever has its token is the operator for this path, and nobody for others
            tenant = OPERATOR if scope["path"] == JOIN else None
        if tenant is None:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        scope["tenant"] = tenant
        try:
            self._admission.request(tenant, scope["path"])
            self._admission.open_socket(tenant)
        except TooManyRequests as error:
            await problem_response(problem_of(error))(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._admission.close_socket(tenant)

    def _of(self, given: bytes) -> str | None:
        """The token's tenant; None if unknown. Compares with all tokens, so that the time reveals nothing."""
        found = None
        for token, tenant in self._tokens:
            if hmac.compare_digest(given, token):
                found = tenant
        return found

    def _of_socket(self, headers: dict[bytes, bytes]) -> str | None:
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        if origin is not None and origin.partition(b"://")[2] != host:
            return None
        offered = [name.strip() for name in headers.get(b"sec-websocket-protocol", b"").split(b",")]
        known = (self._of(one) for one in (*offered, _bearer(headers)))
        return next((tenant for tenant in known if tenant is not None), None)


async def _answered(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request; one that still waits when the server stops is told to try again."""
    begun = False

    async def sending(message: Message) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        await app(scope, receive, sending)
    except asyncio.CancelledError:  # by the server, which stops, and by nobody else
        if begun:
            raise
        await _refuse(_STOPPING, {"Connection": "close"})(scope, receive, send)


def tenant_of(connection: HTTPConnection) -> str:
    """The tenant that sent the request, as `Guard` wrote it."""
    tenant: str = connection.scope["tenant"]
    return tenant


def _bearer(headers: dict[bytes, bytes]) -> bytes:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _refuse(problem: wire.Problem, headers: Mapping[str, str]) -> ASGIApp:
    response = problem_response(problem)
    response.headers.update(headers)
    return response
