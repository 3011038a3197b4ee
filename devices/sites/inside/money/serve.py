"""Serve the site `money` by its WSGI application."""

import sys
from pathlib import Path

from application import application  # type: ignore[import-not-found]
from serving import serve  # type: ignore[import-not-found]

if __name__ == "__main__":
    serve(application(Path(sys.argv[1])), sys.argv[2])
