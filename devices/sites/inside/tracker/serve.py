"""Serve the site `tracker` by Roundup's WSGI application, since its own server refuses to run as root."""

import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from roundup.cgi.wsgi_handler import RequestDispatcher  # type: ignore[import-not-found]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def address_string(self) -> str:
        return self.client_address[0]

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    application = RequestDispatcher(str(Path(sys.argv[1]) / "tracker"))
    make_server("127.0.0.1", int(sys.argv[2]), application, _Server, _Quiet).serve_forever()
