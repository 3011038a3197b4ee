"""Serve the site `wiki` by Django's WSGI application, which also sends its styles and scripts."""

import os
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

os.environ.update(DJANGO_SETTINGS_MODULE="settings", WIKI_DATA=sys.argv[1])

from django.contrib.staticfiles.handlers import StaticFilesHandler  # type: ignore[import-not-found]
from django.core.wsgi import get_wsgi_application  # type: ignore[import-not-found]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def address_string(self) -> str:
        return self.client_address[0]

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    application = StaticFilesHandler(get_wsgi_application())
    make_server("127.0.0.1", int(sys.argv[2]), application, _Server, _Quiet).serve_forever()
