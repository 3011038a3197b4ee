"""Relays TCP connections inside the guest to a unix socket: a way out for a guest without a network.

The socket's other side decides who may be reached; this one only carries bytes.
"""

import contextlib
import select
import socket
import socketserver
from typing import Any

PROXY = ("127.0.0.1", 3128)
_CHUNK = 64 << 10
_IDLE_S = 600.0


class Relay(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on `address`; each connection gets one of its own to the unix socket at `path`."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: str, address: tuple[str, int] = PROXY) -> None:
        self.path = path
        super().__init__(address, _Tunnel)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Either side may hang up at any time."""


class _Tunnel(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as far:
            far.connect(self.server.path)
            carry(self.request, far)


def carry(near: socket.socket, far: socket.socket) -> None:
    """Both directions, until both have ended: one side saying nothing more does not silence the other."""
    towards = {near: far, far: near}
    while towards:
        readable, _, _ = select.select(list(towards), [], [], _IDLE_S)
        if not readable:
            return
        for source in readable:
            data = source.recv(_CHUNK)
            if data:
                towards[source].sendall(data)
            else:
                with contextlib.suppress(OSError):
                    towards[source].shutdown(socket.SHUT_WR)
                del towards[source]
