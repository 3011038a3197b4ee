"""Serve the site `tracker` by Roundup's WSGI application, since its own server refuses to run as root."""

import sys
from pathlib import Path

from roundup.cgi.wsgi_handler import RequestDispatcher  # type: ignore[import-not-found]
from serving import serve  # type: ignore[import-not-found]

if __name__ == "__main__":
    serve(RequestDispatcher(str(Path(sys.argv[1]) / "tracker")), sys.argv[2])
