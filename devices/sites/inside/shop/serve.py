"""Serve the site `shop` by Django's WSGI application, which also sends Oscar's styles and scripts."""

import os
import sys

os.environ.update(DJANGO_SETTINGS_MODULE="settings", SHOP_DATA=sys.argv[1])

from django.contrib.staticfiles.handlers import StaticFilesHandler  # type: ignore[import-not-found]
from django.core.wsgi import get_wsgi_application  # type: ignore[import-not-found]
from serving import serve  # type: ignore[import-not-found]

if __name__ == "__main__":
    serve(StaticFilesHandler(get_wsgi_application()), sys.argv[2])
