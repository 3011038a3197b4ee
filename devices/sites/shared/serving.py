"""Serve the WSGI application of a site: threads for its connections, and not a word of its visits."""

from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import WSGIApplication


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def address_string(self) -> str:
        return self.client_address[0]

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(application: WSGIApplication, port: str) -> None:
    """Serve the application at this port of the loopback until the process is ended."""
    make_server("127.0.0.1", int(port), application, _Server, _Quiet).serve_forever()
