"""Serve the site `money` by its WSGI application."""

import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from application import application  # type: ignore[import-not-found]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def address_string(self) -> str:
        return self.client_address[0]

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    served = application(Path(sys.argv[1]))
    make_server("127.0.0.1", int(sys.argv[2]), served, _Server, _Quiet).serve_forever()
